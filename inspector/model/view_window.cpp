// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/view_window.h"

#include <algorithm>
#include <limits>

namespace tessera::inspector {
namespace {

constexpr double kept_whole = 4;      // times what a view may have
constexpr double worth_reading = 64;  // of what a view may have, a part: less is read at no gain

}  // namespace

ViewWindow::ViewWindow(std::vector<storage::SpanStretch> stretches, Time end, std::int64_t most)
    : stretches_(std::move(stretches)), end_(std::max<Time>(end, 1)), most_(most) {
  std::int64_t all = 0;
  for (const storage::SpanStretch& stretch : stretches_) all += stretch.spans;
  whole_ = static_cast<double>(all) <= kept_whole * static_cast<double>(most_);
  if (whole_) range_ = {std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max()};
}

double ViewWindow::count(Time from, Time to) const {
  double sum = 0;
  for (const storage::SpanStretch& stretch : stretches_) {
    const Time first = std::max(from, stretch.begin), last = std::min(to, stretch.end);
    if (last < first) continue;
    const auto length = static_cast<double>(std::max<Time>(stretch.end - stretch.begin, 1));
    const double share = std::min(1.0, static_cast<double>(last - first) / length);
    sum += share * static_cast<double>(stretch.spans);
  }
  return sum;
}

bool ViewWindow::look_at(Time from, Time to) {
  if (whole_) return false;
  from = std::max<Time>(from, 0);
  to = std::clamp<Time>(to, from + 1, std::max(end_ + 1, from + 1));
  const auto most = static_cast<double>(most_);
  crowded_ = count(from, to) > most;
  if (crowded_ || (range_.first <= from && to <= range_.second)) return false;
  // As much beside the view as is read in no time.
  const Time least = std::max<Time>(to - from, 1);
  range_ = {from, to};
  for (Time beside = least; beside < end_; beside *= 2) {
    const std::pair<Time, Time> wider{std::max<Time>(from - beside, 0),
                                      std::min(to + beside, end_ + 1)};
    if (count(wider.first, wider.second) > most) break;
    range_ = wider;
    if (beside >= 4 * least && count(wider.first, wider.second) > most / worth_reading) break;
  }
  return true;
}

}  // namespace tessera::inspector
