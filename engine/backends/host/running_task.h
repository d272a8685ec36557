// SPDX-License-Identifier: Apache-2.0
// An operation while it runs beside the host thread.
#pragma once

#include "tessera/status.h"

namespace tessera {

class RunningTask {
 public:
  virtual ~RunningTask() = default;
  /// Makes progress without waiting. Returns whether the operation is done.
  virtual Result<bool> advance() = 0;
};

}  // namespace tessera
