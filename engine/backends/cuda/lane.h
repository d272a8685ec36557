// SPDX-License-Identifier: Apache-2.0
// One CUDA stream, and how far it is.
//
// The idea: the engine's events are numbers. A CUDA event is recorded behind every collective and
// copy, which others wait for, and behind a computation only when somebody waits; then it may cover
// younger work as well, which is later and never wrong.
#pragma once

#include <deque>
#include <vector>

#include "engine/backends/cuda/cuda_api.h"
#include "engine/runtime/access_history.h"
#include "tessera/status.h"

namespace tessera {

/// CUDA events that are made once and used again and again.
class EventPool {
 public:
  enum class Kind { untimed, timed };
  explicit EventPool(const CudaApi& api, Kind kind = Kind::untimed) : api_(api), kind_(kind) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool();

  /// An event behind everything that `stream` has been given; the caller gives it back.
  Result<CudaEvent> record(CudaStream stream);
  void give_back(CudaEvent event) { free_.push_back(event); }

 private:
  Result<CudaEvent> take();

  const CudaApi& api_;
  const Kind kind_;
  std::vector<CudaEvent> free_;
};

class Lane {
 public:
  Lane(const CudaApi& api, EventPool& events) : api_(api), events_(events) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  Status open(int priority);
  CudaStream stream() const { return stream_; }

  /// `op` has been handed to the stream. `record`: others will wait for it.
  Status submitted(const Accessor& op, bool record);
  EventId youngest() const { return youngest_.event; }
  /// What is submitted from now on runs after `event` of `other`.
  Status wait(Lane& other, EventId event);
  /// Whether `event` has happened. Does not wait.
  Result<bool> reached(EventId event);
  /// The oldest op that is not known to be over; event none: all are.
  Accessor oldest();
  EventId finished() const { return finished_; }

 private:
  struct Recorded {
    Accessor last;  // everything up to this op
    CudaEvent event;
  };
  Status record();
  Result<CudaEvent> covering(EventId event);  // null: it is over
  Status retire();

  const CudaApi& api_;
  EventPool& events_;
  CudaStream stream_ = nullptr;
  std::deque<Recorded> recorded_;
  Accessor youngest_;
  EventId finished_;  // and all before it
};

}  // namespace tessera
