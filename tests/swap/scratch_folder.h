// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/temporary_folder.h"

namespace tessera::test {

/// A folder that must be empty when it goes.
class ScratchFolder : public TemporaryFolder {
 public:
  ~ScratchFolder() { CHECK(empty()); }
};

}  // namespace tessera::test
