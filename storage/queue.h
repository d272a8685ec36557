// SPDX-License-Identifier: Apache-2.0
// Batches on their way from one thread to another, bounded by their total `size()`.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "tessera/assert.h"

namespace tessera::storage {

template <class Batch>
class Queue {
 public:
  explicit Queue(std::size_t size_max) : size_max_(size_max) {}

  /// Blocks while the queue is full; a batch larger than the queue waits until it is empty.
  void push(Batch batch) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [&] { return batches_.empty() || size_ + batch.size() <= size_max_; });
    TESSERA_ASSERT(!closed_, "nothing comes after the last batch");
    size_ += batch.size();
    batches_.push_back(std::move(batch));
    if (size_ > size_peak_) size_peak_ = size_;
    filled_.notify_one();
  }

  /// No batch comes any more.
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    filled_.notify_one();
  }

  /// Waits up to `patience` while the queue is empty; nothing if it is then.
  std::optional<Batch> pop(std::chrono::nanoseconds patience = std::chrono::hours(24)) {
    std::unique_lock lock(mutex_);
    filled_.wait_for(lock, patience, [&] { return closed_ || !batches_.empty(); });
    if (batches_.empty()) return std::nullopt;
    Batch batch = std::move(batches_.front());
    batches_.pop_front();
    size_ -= batch.size();
    room_.notify_one();
    return batch;
  }

  /// Nothing comes any more, and everything was taken.
  bool over() const {
    const std::lock_guard lock(mutex_);
    return closed_ && batches_.empty();
  }

  /// Batches that wait now.
  std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return batches_.size();
  }

  /// The most that ever waited.
  std::size_t size_peak() const {
    const std::lock_guard lock(mutex_);
    return size_peak_;
  }

 private:
  const std::size_t size_max_;

  mutable std::mutex mutex_;  // guards all below
  std::condition_variable room_, filled_;
  std::deque<Batch> batches_;
  std::size_t size_ = 0, size_peak_ = 0;
  bool closed_ = false;
};

}  // namespace tessera::storage
