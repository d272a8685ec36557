// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/background.h"

#include <chrono>

namespace tessera {

void Background::start(Job job) {
  TESSERA_ASSERT(!thread_.joinable(), "one job at a time");
  if (!threaded_) {
    result_ = job();
    return;
  }
  done_ = false;
  thread_ = std::thread([this, job = std::move(job)] {
    Status result = job();
    const std::scoped_lock lock(mutex_);
    result_ = std::move(result);
    done_ = true;
    changed_.notify_all();
  });
}

bool Background::done() const {
  const std::scoped_lock lock(mutex_);
  return done_;
}

bool Background::wait_a_moment() {
  TESSERA_ASSERT(threaded_ || done_, "a job without a thread is done when it has started");
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return done_; });
}

Status Background::take() {
  if (thread_.joinable()) thread_.join();
  return std::exchange(result_, {});
}

}  // namespace tessera
