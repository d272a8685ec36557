// SPDX-License-Identifier: Apache-2.0
// Bounds how far the host runs ahead of a stream.
//
// The idea: a CUDA stream holds about 1,000 entries (kernels, copies, events, waits); whoever
// enqueues one more is blocked inside of CUDA, where nobody looks at a deadline, at other ranks, or
// at files that open the stream's gate. So an event marks every window of entries, and before an
// operation is enqueued the mark before the last is waited for with Patience. Entries are counted
// as they are enqueued, never by time, so the marks of a run are always the same.
#pragma once

#include <deque>

#include "engine/backends/cuda/event_pool.h"

namespace tessera {

class RunAhead {
 public:
  static constexpr int window = 256;           // entries
  static constexpr std::size_t marks_max = 2;  // so three windows and an operation are under way

  RunAhead(const CudaApi& api, EventPool& events) : api_(api), events_(events) {}
  RunAhead(const RunAhead&) = delete;
  RunAhead& operator=(const RunAhead&) = delete;
  ~RunAhead();

  /// Notes that `entries` more have been enqueued on `stream`.
  Status enqueued(CudaStream stream, int entries);
  /// Whether another operation may be enqueued. Does not wait.
  Result<bool> has_room();

 private:
  const CudaApi& api_;
  EventPool& events_;
  int since_mark_ = 0;
  std::deque<CudaEvent> marks_;  // of windows that are not known to be over
};

}  // namespace tessera
