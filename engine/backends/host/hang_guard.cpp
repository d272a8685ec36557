// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/hang_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "engine/runtime/op_checks.h"

namespace tessera {
namespace {

constexpr Time check_period_max = 100'000'000;

}  // namespace

HangGuard::HangGuard(Rank rank, const HostOptions& options) : rank_(rank), options_(options) {
  if (options_.on_hang && options_.clock) thread_ = std::thread([this] { watch(); });
}

HangGuard::~HangGuard() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

HangGuard::Inside::Inside(HangGuard& guard, const Op* op)
    : guard_(guard), outermost_(guard.thread_.joinable() && !guard.inside_) {
  if (!outermost_) return;  // a body that polls: the time of the whole body counts
  const Time now = guard_.options_.clock();
  const std::lock_guard lock(guard_.mutex_);
  guard_.inside_ = true;
  guard_.op_ = op;
  guard_.since_ = now;
}

HangGuard::Inside::~Inside() {
  if (!outermost_) return;
  const std::lock_guard lock(guard_.mutex_);
  guard_.inside_ = false;
}

// A sentence once the rank has been inside of one operation for longer than the deadline. The host
// thread cannot notice that, since it is the one that does not return.
std::string HangGuard::late() const {
  const Time now = options_.clock();
  if (!inside_ || now - since_ <= options_.deadline) return {};
  return fmt::format("rank {} hangs: it is inside of {} for {:.1f} s", rank_,
                     op_ == nullptr ? "the transport" : "the " + describe(*op_),
                     static_cast<double>(now - since_) * 1e-9);
}

// `on_hang` is called without the lock, since it may end the process or call this rank's runtime,
// and only once: the rank is stuck, and nothing that it reports later would be true.
void HangGuard::watch() {
  const std::chrono::nanoseconds period(std::min(check_period_max, options_.deadline / 4 + 1));
  std::unique_lock lock(mutex_);
  while (!over_) {
    changed_.wait_for(lock, period);
    if (const std::string why = late(); !why.empty()) {
      lock.unlock();
      options_.on_hang(why);
      return;
    }
  }
}

}  // namespace tessera
