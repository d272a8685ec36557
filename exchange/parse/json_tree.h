// SPDX-License-Identifier: Apache-2.0
// JSON as a tree, which takes no more memory than that of a pickle.
#pragma once

#include <string_view>

#include "exchange/parse/tree.h"

namespace tessera::exchange {

/// Fails with what is wrong and where, to follow the file's name: corrupt; out_of_memory for a tree
/// that would take more than three times the text and 24 MB.
Result<Tree> parse_json_tree(std::string_view text);

}  // namespace tessera::exchange
