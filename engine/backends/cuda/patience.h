// SPDX-License-Identifier: Apache-2.0
// How this rank waits: it looks again and again, hears when others give up, and gives up itself at
// the deadline. Nothing on a GPU is ever waited for in any other way.
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
  /// Until `look` says done. `what`: for whom it waits, asked at the deadline.
  /// Fails: what `look` says; timed_out, after the deadline without progress; cancelled; why
  /// another rank ended.
  Status until(const std::function<Result<Seen>()>& look, const std::function<std::string()>& what);
  /// From now on it does not matter what others do: this rank clears up.
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
