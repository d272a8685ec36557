// SPDX-License-Identifier: Apache-2.0
// The first failure of bodies, which may run at the same time and cannot return one.
#pragma once

#include <mutex>

#include "tessera/status.h"

namespace tessera {

class FirstFailure {
 public:
  void note(const Status& failed) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = failed;
  }
  Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  Status status_;
};

}  // namespace tessera
