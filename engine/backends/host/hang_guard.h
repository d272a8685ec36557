// SPDX-License-Identifier: Apache-2.0
// Notices from outside that this rank does not come back from an operation: bodies and transports
// can hang where no deadline is looked at.
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
  /// Watches if the options say whom to tell.
  HangGuard(Rank rank, const HostOptions& options);
  ~HangGuard();
  HangGuard(const HangGuard&) = delete;
  HangGuard& operator=(const HangGuard&) = delete;

  /// While it lives, this rank is inside of `op`; null: of the transport.
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
  std::thread thread_;  // the last: it uses all of the above
};

}  // namespace tessera
