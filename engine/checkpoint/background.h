// SPDX-License-Identifier: Apache-2.0
// One job at a time on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "tessera/status.h"

namespace tessera {

class Background {
 public:
  using Job = std::function<Status()>;

  /// `threaded`: false: `start` does the job.
  explicit Background(bool threaded) : threaded_(threaded) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }

  /// REQUIRES: the result of the job before was taken.
  void start(Job job);
  bool done() const;
  /// Until the job is done, but not for long. True if it is.
  bool wait_a_moment();
  /// Waits for the job and says what came of it; nothing if there was none.
  Status take();

 private:
  const bool threaded_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  bool done_ = true;
  Status result_;
};

}  // namespace tessera
