// SPDX-License-Identifier: Apache-2.0
// A pipe that nobody writes into, which would be waited for without end.
#pragma once

#include <string>

#include "tessera/status.h"

namespace tessera::cli {

/// Held until the file is open, so that who writes into the pipe has a reader all the time.
class HeldPipe {
 public:
  /// Does nothing for what is no pipe.
  explicit HeldPipe(const std::string& path);
  ~HeldPipe();
  HeldPipe(const HeldPipe&) = delete;
  HeldPipe& operator=(const HeldPipe&) = delete;

  /// Fails: invalid_argument, if nobody has it open for writing and nothing is in it.
  Status check() const;

 private:
  const std::string path_;
  int pipe_ = -1;
};

}  // namespace tessera::cli
