// SPDX-License-Identifier: Apache-2.0
// What is read is named once, and not written over.
#pragma once

#include <string>
#include <vector>

#include "tessera/status.h"

namespace tessera::exchange {

/// `done`: "imported", for the sentence. Fails: invalid_argument, if `out` is one of `files`,
/// whatever it is called, or one of them is there twice.
Status check_output_name(const std::vector<std::string>& files, const std::string& out,
                         const char* done);

}  // namespace tessera::exchange
