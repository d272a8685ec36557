// SPDX-License-Identifier: Apache-2.0
#include "sim/host/host_clock.h"

#include <algorithm>

namespace tessera::sim {

// What the program does between passes once the device is idle; 0: it does not wait for that.
Time HostClock::pause_before(const Op& op) const {
  const auto* const mark = std::get_if<Mark>(&op.what);
  if (mark == nullptr || mark->kind != marks::phase) return 0;
  if (op.cause.phase == Phase::forward) return costs_.micro_batch_ns;
  return op.cause.phase == Phase::optimizer ? costs_.step_ns : 0;
}

bool HostClock::waits_before(const Op& op) const { return pause_before(op) > 0; }

Time HostClock::cost_of(const Op& op) const {
  if (std::holds_alternative<Wait>(op.what)) return 0;
  if (const auto* const mark = std::get_if<Mark>(&op.what)) {
    const bool pass = mark->kind == marks::phase && op.cause.phase == Phase::forward;
    return pause_before(op) + (pass ? costs_.pass_ns : 0);
  }
  if (std::holds_alternative<Copy>(op.what)) return costs_.kernel_ns;
  const auto* const compute = std::get_if<Compute>(&op.what);
  if (compute == nullptr) return costs_.collective_ns;
  const Time kernels = compute->cost.kernels;
  return kernels == 0 ? 0 : costs_.module_ns + kernels * costs_.kernel_ns;
}

LaunchQueue& HostClock::queue_of(StreamId stream) {
  while (queues_.size() <= stream.index()) queues_.emplace_back(costs_.queue_launches);
  return queues_[stream.index()];
}

void HostClock::issue(const Op& op, ClockPool& pool) {
  LaunchQueue& queue = queue_of(op.stream);
  while (const Clock done = queue.next_wait()) wait(done, pool);
  issued_ += cost_of(op);
}

void HostClock::under_way(const Op& op, const Clock& end) {
  const auto* const compute = std::get_if<Compute>(&op.what);
  queue_of(op.stream).add(compute == nullptr ? 1 : compute->cost.kernels, end);
}

void HostClock::wait(const Clock& time, ClockPool& pool) {
  if (time->highest <= waited_->lowest + issued_) return;
  auto later = pool.take();
  clock_add(later->data(), waited_->data(), issued_,
            static_cast<std::int64_t>(later->times().size()));
  clock_max(later->data(), later->data(), time->data(),
            static_cast<std::int64_t>(later->times().size()));
  later->lowest = std::max(waited_->lowest + issued_, time->lowest);
  later->highest = std::max(waited_->highest + issued_, time->highest);
  waited_ = later;
  issued_ = 0;
}

Clock HostClock::later_than(const Clock& clock, ClockPool& pool) const {
  if (waited_->highest + issued_ <= clock->lowest) return nullptr;
  if (issued_ == 0) return waited_;
  auto now = pool.take();
  clock_add(now->data(), waited_->data(), issued_, static_cast<std::int64_t>(now->times().size()));
  now->lowest = waited_->lowest + issued_;
  now->highest = waited_->highest + issued_;
  return now;
}

std::vector<Time> HostClock::times() const {
  std::vector<Time> out = waited_->times();
  for (Time& t : out) t += issued_;
  return out;
}

}  // namespace tessera::sim
