// SPDX-License-Identifier: Apache-2.0
// Modules by patterns of their paths, as plans and options name them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/model.h"

namespace tessera {

/// "*" stands for any text without a dot, "**" for any text.
bool matches_path(std::string_view pattern, std::string_view path);

/// Why a module that is no block is not checkpointed.
inline constexpr const char* only_whole_blocks =
    "activations are checkpointed by whole blocks, and inside of them computed again by recompute";

/// By ModuleId: the blocks that any of `names` means, by a pattern of their path or by their class;
/// without names all. Fails: invalid_argument (a name that no module has), not_supported (one that
/// no block has), saying which.
Result<std::vector<bool>> blocks_named(const Model& model, const std::vector<std::string>& names);

}  // namespace tessera
