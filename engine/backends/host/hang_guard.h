// SPDX-License-Identifier: Apache-2.0
// A thread that notices when this rank does not return from an operation. Bodies and transports can
// hang in places where the host thread checks no deadline.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "tessera/host_runtime.h"
#include "tessera/op.h"

namespace tessera {

class HangGuard {
 public:
  /// Starts the thread if the options have `on_hang` and a clock.
  HangGuard(Rank rank, const HostOptions& options);
  ~HangGuard();
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

  /// While it lives, this rank is inside of `op`, or of the transport if that is null. Nested ones
  /// count as part of the outermost.
  class Inside {
   public:
    Inside(HangGuard& guard, const Op* op);
    ~Inside();
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    HangGuard& guard_;
    const bool outermost_;
  };

 private:
  void watch();
  std::string late() const;

  const Rank rank_;
  const HostOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool inside_ = false;
  bool over_ = false;
  const Op* op_ = nullptr;
  Time since_ = 0;
  std::thread thread_;  // last, because it uses all members above
};

}  // namespace tessera
