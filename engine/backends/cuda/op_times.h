// SPDX-License-Identifier: Apache-2.0
// When operations begin and end on the device, for a trace, without anybody waiting for it.
//
// The idea: an event before and one behind each operation, on its stream. Whoever looks finds those
// that have happened, tells their times and uses the events again.
#pragma once

#include <deque>
#include <map>

#include "engine/backends/cuda/device_clock.h"
#include "engine/backends/host/host_trace.h"

namespace tessera {

class OpTimes {
 public:
  /// `trace` gets the times. `host`: this rank's clock.
  OpTimes(const CudaApi& api, HostTrace& trace, std::function<Time()> host)
      : api_(api),
        trace_(trace),
        clock_(api, std::move(host)),
        events_(api, EventPool::Kind::timed) {}
  OpTimes(const OpTimes&) = delete;
  OpTimes& operator=(const OpTimes&) = delete;
  ~OpTimes();

  Status open(const DeviceClock::Wait& wait) { return clock_.open(wait); }
  /// What is handed to `stream` from here to `end` is the operation with this place in the trace.
  Status begin(CudaStream stream);
  Status end(CudaStream stream, std::int64_t place);
  /// Tells what has happened since. Does not wait.
  Status collect();
  /// Also what has only begun. The run ends here.
  void collect_last();

 private:
  struct Pending {
    CudaEvent begin = nullptr;
    CudaEvent end = nullptr;  // null: all of it has not been handed over
    std::int64_t place = -1;
  };
  Status collect(std::deque<Pending>& of_stream);

  const CudaApi& api_;
  HostTrace& trace_;
  DeviceClock clock_;
  EventPool events_;
  std::map<CudaStream, std::deque<Pending>> pending_;
  int unread_ = 0;  // operations since the last look
};

}  // namespace tessera
