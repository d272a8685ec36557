// SPDX-License-Identifier: Apache-2.0
// Where the parts of a rank's workspace lie in its buffer.
#pragma once

#include "training/language/plan.h"

namespace tessera::language {

struct WorkspaceLayout {
  Workspace work;
  Bytes bytes{};
};

/// `apart`: blocks are computed again in backward, so the stream and its gradient live at once.
WorkspaceLayout workspace_at(std::byte* base, Plan& plan, bool apart);

/// What belongs to Workspace::tokens: inputs, targets, places of the inputs in the order of (id,
/// place). REQUIRES: ids below the size of the vocabulary.
std::vector<std::int32_t> split_tokens(const Plan& plan, std::span<const std::int32_t> given);
/// What belongs to Workspace::rotary.
std::vector<float> rotary_of(const Plan& plan);

}  // namespace tessera::language
