// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/op_times.h"

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr int unread_operations_max = 64;

}  // namespace

OpTimes::~OpTimes() {
  for (auto& [stream, of_stream] : pending_) {
    for (const Pending& op : of_stream) {
      events_.give_back(op.begin);
      if (op.end != nullptr) events_.give_back(op.end);
    }
  }
}

Status OpTimes::begin(CudaStream stream) {
  if (++unread_ > unread_operations_max) TESSERA_TRY(collect());
  TESSERA_ASSIGN(const CudaEvent event, events_.record(stream));
  pending_[stream].push_back({.begin = event});
  return {};
}

Status OpTimes::end(CudaStream stream, std::int64_t place) {
  Pending& op = pending_[stream].back();
  op.place = place;
  TESSERA_ASSIGN(op.end, events_.record(stream));
  return {};
}

Status OpTimes::collect() {
  unread_ = 0;
  TESSERA_TRY(clock_.tick());
  for (auto& [stream, of_stream] : pending_) TESSERA_TRY(collect(of_stream));
  return {};
}

Status OpTimes::collect(std::deque<Pending>& of_stream) {
  while (!of_stream.empty() && of_stream.front().end != nullptr) {
    const Pending& op = of_stream.front();
    TESSERA_ASSIGN(const bool over, has_happened(api_, op.end));
    if (!over) return {};
    TESSERA_ASSIGN(const Time begin, clock_.time_of(op.begin));
    TESSERA_ASSIGN(const Time end, clock_.time_of(op.end));
    trace_.began(op.place, begin);
    trace_.ended(op.place, end);
    events_.give_back(op.begin);
    events_.give_back(op.end);
    of_stream.pop_front();
  }
  return {};
}

// Errors are ignored here: the run has failed already, and the first error was reported.
void OpTimes::collect_last() {
  static_cast<void>(collect());
  for (auto& [stream, of_stream] : pending_) {
    if (of_stream.empty()) continue;
    const Pending& op = of_stream.front();
    const auto over = has_happened(api_, op.begin);
    if (!over.ok() || !*over) continue;
    const auto begin = clock_.time_of(op.begin);
    if (begin.ok()) trace_.began(op.place, *begin);
  }
}

}  // namespace tessera
