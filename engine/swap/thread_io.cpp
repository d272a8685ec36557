// SPDX-License-Identifier: Apache-2.0
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/swap/block_io.h"

namespace tessera {
namespace {

class ThreadIo final : public BlockIo {
 public:
  ThreadIo(int threads, MoveBlock move) : move_(std::move(move)) {
    for (int t = 0; t < threads; ++t) threads_.emplace_back([this] { serve(); });
  }
  ~ThreadIo() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    asked_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  int start(const BlockRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    asked_.notify_one();
    return 0;
  }
  BlockCompletion wait() override {
    std::unique_lock lock(mutex_);
    answered_.wait(lock, [this] { return !completions_.empty(); });
    return take();
  }
  std::optional<BlockCompletion> poll() override {
    const std::lock_guard lock(mutex_);
    if (completions_.empty()) return {};
    return take();
  }
  const char* name() const override { return "threads"; }

 private:
  BlockCompletion take() {
    const BlockCompletion completion = completions_.front();
    completions_.pop_front();
    return completion;
  }
  void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      asked_.wait(lock, [this] { return ends_ || !requests_.empty(); });
      if (requests_.empty()) return;
      const BlockRequest request = requests_.front();
      requests_.pop_front();
      lock.unlock();
      const std::int64_t result = move_(request);
      lock.lock();
      completions_.push_back({request.tag, result});
      answered_.notify_one();
    }
  }

  const MoveBlock move_;
  std::mutex mutex_;
  std::condition_variable asked_, answered_;
  std::deque<BlockRequest> requests_;
  std::deque<BlockCompletion> completions_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::int64_t move_block(const BlockRequest& r) {
  iovec part{r.data, r.size};
  const ssize_t moved =
      r.writes ? pwritev(r.file, &part, 1, r.offset) : preadv(r.file, &part, 1, r.offset);
  return moved < 0 ? -errno : moved;
}

std::unique_ptr<BlockIo> make_thread_io(int threads, MoveBlock move) {
  return std::make_unique<ThreadIo>(threads, std::move(move));
}

}  // namespace tessera
