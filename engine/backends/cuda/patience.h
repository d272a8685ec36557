// SPDX-License-Identifier: Apache-2.0
// The one way in which this rank waits for a GPU or for other ranks: it polls, notices when others
// give up, and gives up itself at the deadline.
#pragma once

#include <functional>
#include <string>

#include "engine/backends/cuda/peers.h"
#include "tessera/cuda_runtime.h"

namespace tessera {

class Patience {
 public:
  Patience(CudaPeers& peers, const CudaOptions& options)
      : peers_(peers),
        clock_(options.clock),
        interrupted_(options.interrupted),
        deadline_(options.deadline) {}

  enum class Seen { nothing, progress, done };
  /// Calls `look` until it returns `done`. `what` names the awaited operation at the deadline.
  /// Fails: as `look`; timed_out, after the deadline without progress; cancelled; with the reason
  /// why another rank ended the run.
  Status until(const std::function<Result<Seen>()>& look, const std::function<std::string()>& what);
  /// From now on errors of other ranks are ignored: this rank clears up.
  void stop_listening() { listens_ = false; }

 private:
  Time time() const { return clock_ ? clock_() : 0; }

  CudaPeers& peers_;
  const std::function<Time()> clock_;
  const std::function<bool()> interrupted_;
  const Time deadline_;
  bool listens_ = true;
};

}  // namespace tessera
