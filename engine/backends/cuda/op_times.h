// SPDX-License-Identifier: Apache-2.0
// Measures when operations begin and end on the device, for a trace, without waiting.
//
// The idea: an event is recorded before and one behind each operation, on its stream. `collect`
// finds those that have happened, passes their times to the trace and uses the events again.
#pragma once

#include <deque>
#include <map>

#include "engine/backends/cuda/device_clock.h"
#include "engine/backends/host/host_trace.h"

namespace tessera {

class OpTimes {
 public:
  /// `trace` receives the times; `host` is this rank's clock.
  OpTimes(const CudaApi& api, HostTrace& trace, std::function<Time()> host)
      : api_(api),
        trace_(trace),
        clock_(api, std::move(host)),
        events_(api, EventPool::Kind::timed) {}
  OpTimes(const OpTimes&) = delete;
  OpTimes& operator=(const OpTimes&) = delete;
  ~OpTimes();

  Status open(const DeviceClock::Wait& wait) { return clock_.open(wait); }
  /// The work enqueued on `stream` between `begin` and `end` is the operation at `place` of the
  /// trace.
  Status begin(CudaStream stream);
  Status end(CudaStream stream, std::int64_t place);
  /// Passes on the times of all events that have happened since. Does not wait.
  Status collect();
  /// As `collect`, also for operations that have only begun. The run ends here.
  void collect_last();

 private:
  struct Pending {
    CudaEvent begin = nullptr;
    CudaEvent end = nullptr;  // null: the operation is not enqueued completely
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
