// SPDX-License-Identifier: Apache-2.0
// When something happened on the device, by the host's clock.
//
// The idea: events tell how far apart they are, and nothing else. So now and then a reference is
// recorded on a stream of its own: it happens after it was recorded and before the host sees that
// it has, which bounds the difference of the clocks (ClockAlignment). Other events are timed from
// the latest reference, so that drift and a float's few digits do not add up. Nobody waits for a
// reference but at the start.
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

  /// Until `until` is done: how the caller waits.
  using Wait = std::function<Status(const std::function<Result<bool>()>& done)>;
  /// Waits for a few references, so that times are right from the beginning.
  Status open(const Wait& wait);
  /// Records a new reference if it is time, and looks at the one that is under way.
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
  Time reference_time_ = 0;        // by the device, since the first one
  CudaEvent next_ = nullptr;       // under way
  Time recorded_ = 0;              // by the host: before `next_` was
  ClockAlignment clocks_{2};       // of the host, and the device as its rank 1
  bool open_ = false;
};

}  // namespace tessera
