// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/clock_offsets.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <limits>

namespace tessera::exchange {
namespace {

constexpr int rounds = 4;
constexpr Time tolerance = 2'000;  // ns by which clocks of one machine may seem to contradict

Time median_of(std::vector<Time>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  const Time below = *std::max_element(values.begin(), middle);
  return below + (*middle - below) / 2;
}

}  // namespace

void ClockOffsets::find() {
  if (found_.empty()) return;
  found_[0] = true;
  for (std::size_t next = nearest(); next < found_.size(); next = nearest()) {
    offsets_[next] = distance_to_found(next);
    found_[next] = true;
  }
  for (int round = 0; round < rounds; ++round) settle();
}

bool ClockOffsets::contradicted() const {
  return std::any_of(meetings_.begin(), meetings_.end(), [](const auto& meeting) {
    Time begin = std::numeric_limits<Time>::min(), end = std::numeric_limits<Time>::max();
    for (const ClockMeeting& one : meeting) {
      begin = std::max(begin, one.begin);
      end = std::min(end, one.end);
    }
    return begin - end > tolerance;
  });
}

Time ClockOffsets::spread() const {
  std::vector<Time> distances;
  for (const auto& meeting : meetings_) {
    std::vector<Time> ends;
    for (const ClockMeeting& m : meeting) ends.push_back(m.end + offsets_[m.clock]);
    const Time middle = median_of(ends);
    for (const Time end : ends) distances.push_back(std::abs(end - middle));
  }
  return distances.empty() ? 0 : median_of(distances);
}

// Who is not found yet and met most often somebody who is; the number of clocks: nobody.
std::size_t ClockOffsets::nearest() const {
  std::vector<std::int64_t> met(found_.size());
  for (const auto& meeting : meetings_) {
    const bool known = std::any_of(meeting.begin(), meeting.end(),
                                   [&](const ClockMeeting& m) { return found_[m.clock]; });
    for (const ClockMeeting& m : meeting) met[m.clock] += known && !found_[m.clock] ? 1 : 0;
  }
  const auto most = std::max_element(met.begin(), met.end());
  return *most == 0 ? found_.size() : static_cast<std::size_t>(most - met.begin());
}

Time ClockOffsets::distance_to_found(std::size_t clock) const {
  std::vector<Time> distances;
  for (const auto& meeting : meetings_) {
    const auto self = std::find_if(meeting.begin(), meeting.end(),
                                   [&](const ClockMeeting& m) { return m.clock == clock; });
    if (self == meeting.end()) continue;
    for (const ClockMeeting& m : meeting) {
      if (found_[m.clock]) distances.push_back(m.end + offsets_[m.clock] - self->end);
    }
  }
  return median_of(distances);
}

// Everyone moves by the usual distance from the middle of the others; the first stays.
void ClockOffsets::settle() {
  std::vector<std::vector<Time>> distances(offsets_.size());
  for (const auto& meeting : meetings_) {
    std::vector<Time> ends;
    for (const ClockMeeting& m : meeting) ends.push_back(m.end + offsets_[m.clock]);
    const Time middle = median_of(ends);
    for (const ClockMeeting& m : meeting) {
      distances[m.clock].push_back(middle - m.end - offsets_[m.clock]);
    }
  }
  for (std::size_t c = 0; c < offsets_.size(); ++c) {
    if (found_[c] && !distances[c].empty()) offsets_[c] += median_of(distances[c]);
  }
  const Time first = offsets_[0];
  for (std::size_t c = 0; c < offsets_.size(); ++c) {
    if (found_[c]) offsets_[c] -= first;
  }
}

}  // namespace tessera::exchange
