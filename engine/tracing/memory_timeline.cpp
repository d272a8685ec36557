// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/memory_timeline.h"

#include <algorithm>
#include <limits>

#include "engine/runtime/allocator.h"

namespace tessera {
namespace {

// So many stay in a processor's cache on their way to the sink.
constexpr std::size_t samples_at_once = 2048;
// To forget changes looks at all that is pending, so there are to be as many new ones.
constexpr std::size_t changes_at_least = 1024;

Bytes in_pages(Bytes bytes) {
  const std::int64_t page = allocator_page.value;
  return Bytes{(bytes.value + page - 1) / page * page};
}

}  // namespace

MemoryTimeline::MemoryTimeline(std::vector<Rank> ranks)
    : ranks_(std::move(ranks)), lanes_(ranks_.size()) {}

void MemoryTimeline::change(std::size_t slot, Time time, std::int32_t buffer,
                            MemoryClass memory_class, Bytes delta, Bytes address_end) {
  add(slot, time, {buffer, memory_class, delta, address_end, {}});
}

void MemoryTimeline::gave_back(std::size_t slot, Time time, Bytes reserved) {
  add(slot, time, {.kept = reserved});
}

void MemoryTimeline::add(std::size_t slot, Time time, const Change& change) {
  // The ranks of a call follow one another.
  if (changes_.empty() || changes_.back() != change) changes_.push_back(change);
  const std::int64_t number = first_change_ + std::ssize(changes_) - 1;
  Lane& lane = lanes_[slot];
  const Moment moment{std::max(time, lane.sent), number | (change.delta < Bytes{0} ? 0 : come_bit)};
  // The first row that it can follow, so that rows stay few and in their order.
  const auto row =
      std::partition_point(lane.rows.begin(), lane.rows.end(),
                           [&](const Row& earlier) { return moment < earlier.moments.back(); });
  if (row != lane.rows.end()) return row->moments.push_back(moment);
  lane.rows.emplace_back().moments.push_back(moment);
}

void MemoryTimeline::send(const Moment& moment, std::size_t slot, TraceSink& sink) {
  const Change& change = changes_[static_cast<std::size_t>(moment.change() - first_change_)];
  Lane& lane = lanes_[slot];
  if (change.kept) {
    lane.reserved = *change.kept;
    return;
  }
  if (is_on_device(change.memory_class)) {
    lane.allocated += change.delta;
    if (change.delta > Bytes{0}) {
      lane.reserved = std::max(lane.reserved, in_pages(change.address_end));
    }
    // On the device's clock more may be held at once than on the host's.
    lane.reserved = std::max(lane.reserved, in_pages(lane.allocated));
  }
  samples_.push_back({ranks_[slot], moment.time, change.buffer, change.memory_class, change.delta,
                      lane.allocated, lane.reserved});
  if (samples_.size() == samples_at_once) send_samples(sink);
}

void MemoryTimeline::send_samples(TraceSink& sink) {
  if (!samples_.empty()) sink.memory(samples_);
  samples_.clear();
}

void MemoryTimeline::flush(std::size_t slot, Time horizon, TraceSink& sink) {
  Lane& lane = lanes_[slot];
  for (;;) {
    // The row that goes on, and what it comes before.
    Row* first = nullptr;
    Moment end{horizon, std::numeric_limits<std::int64_t>::min()};
    for (Row& row : lane.rows) {
      if (row.over()) continue;
      if (row.front() >= (first != nullptr ? first->front() : end)) {
        end = std::min(end, row.front());
        continue;
      }
      if (first != nullptr) end = first->front();
      first = &row;
    }
    if (first == nullptr) break;
    while (!first->over() && first->front() < end) send(first->moments[first->sent++], slot, sink);
  }
  send_samples(sink);
  lane.sent = std::max(lane.sent, horizon);
  for (Row& row : lane.rows) {
    row.moments.erase(row.moments.begin(),
                      row.moments.begin() + static_cast<std::ptrdiff_t>(row.sent));
    row.sent = 0;
  }
  std::erase_if(lane.rows, [](const Row& row) { return row.moments.empty(); });
  if (changes_.size() >= forget_at_) forget_changes();
}

// Those that every lane has sent.
void MemoryTimeline::forget_changes() {
  std::int64_t oldest = first_change_ + std::ssize(changes_);
  for (const Lane& lane : lanes_) {
    for (const Row& row : lane.rows) {
      for (const Moment& moment : row.moments) oldest = std::min(oldest, moment.change());
    }
  }
  changes_.erase(changes_.begin(), changes_.begin() + (oldest - first_change_));
  first_change_ = oldest;
  forget_at_ = std::max(changes_at_least, 2 * changes_.size());
}

}  // namespace tessera
