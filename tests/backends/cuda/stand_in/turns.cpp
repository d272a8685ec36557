// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/turns.h"

#include <thread>

namespace tessera::test {

void Turns::run(int ranks, const std::function<void(int)>& program) {
  alive_.assign(static_cast<std::size_t>(ranks), true);
  called_.resize(static_cast<std::size_t>(ranks));
  turn_ = 0;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_lock lock(mutex_);
      called_[static_cast<std::size_t>(rank)].wait(lock, [&] { return turn_ == rank; });
      lock.unlock();
      program(rank);
      lock.lock();
      alive_[static_cast<std::size_t>(rank)] = false;
      pass_on();
    });
  }
  for (std::thread& thread : threads) thread.join();
  alive_.clear();
  turn_ = 0;
}

void Turns::pass_on() {
  std::vector<int> waiting;
  for (std::size_t rank = 0; rank < alive_.size(); ++rank) {
    if (alive_[rank]) waiting.push_back(static_cast<int>(rank));
  }
  if (waiting.empty()) return;
  const auto chosen = random_.below(static_cast<std::int64_t>(waiting.size()));
  turn_ = waiting[static_cast<std::size_t>(chosen)];
  called_[static_cast<std::size_t>(turn_)].notify_one();
}

void Turns::yield() {
  if (alive_.size() < 2) return;
  std::unique_lock lock(mutex_);
  const int self = turn_;
  pass_on();
  called_[static_cast<std::size_t>(self)].wait(lock, [&] { return turn_ == self; });
}

}  // namespace tessera::test
