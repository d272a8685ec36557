// SPDX-License-Identifier: Apache-2.0
// One CUDA stream and its progress.
//
// The idea: the engine's events are numbers. A CUDA event is recorded behind every collective and
// copy, for which other streams wait, and behind a computation only when a stream waits for it;
// then it may also cover younger work, so the wait may take longer but is never too short.
#pragma once

#include <deque>
#include <vector>

#include "engine/backends/cuda/event_pool.h"
#include "engine/backends/cuda/run_ahead.h"
#include "engine/runtime/access_history.h"
#include "tessera/status.h"

namespace tessera {

class Lane {
 public:
  Lane(const CudaApi& api, EventPool& events) : api_(api), events_(events), ahead_(api, events) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  Status open(int priority);
  CudaStream stream() const { return stream_; }

  /// Notes that `op` has been enqueued. `record`: other streams will wait for it.
  Status submitted(const Accessor& op, bool record);
  EventId youngest() const { return youngest_.event; }
  /// Makes all work that is enqueued from now on wait for `event` of `other`.
  Status wait(Lane& other, EventId event);
  /// Whether `event` has happened. Does not wait.
  Result<bool> reached(EventId event);
  /// The oldest op that is not known to be over; its event is invalid if all are over.
  Accessor oldest();
  EventId finished() const { return finished_; }
  RunAhead& ahead() { return ahead_; }

 private:
  struct Recorded {
    Accessor last;  // everything up to this op
    CudaEvent event;
  };
  Status record();
  Result<CudaEvent> covering(EventId event);  // null: `event` is over
  Status retire();

  const CudaApi& api_;
  EventPool& events_;
  RunAhead ahead_;
  CudaStream stream_ = nullptr;
  std::deque<Recorded> recorded_;
  Accessor youngest_;
  EventId finished_;  // this event and all before it are over
};

}  // namespace tessera
