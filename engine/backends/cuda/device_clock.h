// SPDX-License-Identifier: Apache-2.0
// Converts events of the device to times of the host's clock.
//
// The idea: CUDA only measures the time between two events. So now and then a reference event is
// recorded on a stream of its own: it happens after it was recorded and before the host sees that
// it has, which bounds the difference of the clocks (ClockAlignment). Other events are timed from
// the latest reference, so that drift and a float's few digits do not add up. The host waits for
// references only at the start.
#pragma once

#include <functional>

#include "engine/backends/cuda/lane.h"
#include "engine/backends/host/clock_alignment.h"

namespace tessera {

class DeviceClock {
 public:
  DeviceClock(const CudaApi& api, std::function<Time()> host)
      : api_(api), host_(std::move(host)), events_(api, EventPool::Kind::timed) {}
  DeviceClock(const DeviceClock&) = delete;
  DeviceClock& operator=(const DeviceClock&) = delete;
  ~DeviceClock();

  /// The caller's way to wait until `done` returns true.
  using Wait = std::function<Status(const std::function<Result<bool>()>& done)>;
  /// Waits for a few references, so that times are right from the beginning.
  Status open(const Wait& wait);
  /// Records a new reference if it is time, and checks the one that is under way.
  Status tick();
  /// REQUIRES: `event` has happened, and can be timed.
  Result<Time> time_of(CudaEvent event) const;

 private:
  Status record();
  Result<bool> look();
  Result<Time> device_time(CudaEvent event) const;

  const CudaApi& api_;
  const std::function<Time()> host_;
  EventPool events_;
  CudaStream stream_ = nullptr;
  CudaEvent reference_ = nullptr;  // the latest that has happened
  Time reference_time_ = 0;        // device time since the first reference
  CudaEvent next_ = nullptr;       // the reference under way
  Time recorded_ = 0;              // host time just before `next_` was recorded
  ClockAlignment clocks_{2};       // the host is its rank 0, the device its rank 1
  bool open_ = false;
};

}  // namespace tessera
