// SPDX-License-Identifier: Apache-2.0
// A pipe that nobody writes into, which would be waited for without end.
#pragma once

#include <string>

#include "tessera/status.h"

namespace tessera::cli {

/// Both ends of a pipe, held while a stream opens it: so who writes into it has a reader all the
/// time, and the stream does not wait for somebody who has written and gone.
class HeldPipe {
 public:
  /// Does nothing for what is no pipe.
  explicit HeldPipe(const std::string& path);
  ~HeldPipe();
  HeldPipe(const HeldPipe&) = delete;
  HeldPipe& operator=(const HeldPipe&) = delete;

  /// Fails: invalid_argument, if nobody else has it open for writing and nothing is in it.
  Status check();

 private:
  const std::string path_;
  int out_ = -1, in_ = -1;  // the ends to read from and to write into
};

}  // namespace tessera::cli
