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

  /// Without `threaded` there is no thread: `start` runs the job before it returns.
  explicit Background(bool threaded) : threaded_(threaded) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  ~Background() {
    if (thread_.joinable()) thread_.join();
  }

  /// REQUIRES: the result of the job before was taken.
  void start(Job job);
  bool done() const;
  /// Waits for the job for at most 0.2 s. Returns whether it is done.
  bool wait_a_moment();
  /// Waits for the job and returns its result once; success if there was no job.
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
