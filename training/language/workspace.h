// SPDX-License-Identifier: Apache-2.0
// Where the parts of a rank's workspace lie in its buffer.
#pragma once

#include "training/language/plan.h"

namespace tessera::language {

struct WorkspaceLayout {
  Workspace work;
  Bytes bytes{};
};

/// With `apart` x and dx get memory of their own: blocks are recomputed in backward, so the
/// residual stream and its gradient are alive at the same time.
WorkspaceLayout workspace_at(std::byte* base, Plan& plan, bool apart);

/// The contents of Workspace::tokens and Workspace::begins.
struct TokenArrays {
  explicit TokenArrays(const Shape& shape);

  /// The parts to be filled.
  TokenBatch batch();
  /// The rest, from these. REQUIRES: ids below the size of the vocabulary.
  void finish(const Plan& plan);

  std::size_t count;  // tokens
  std::vector<std::int32_t> tokens, begins;
};
/// The contents of Workspace::rotary.
std::vector<float> rotary_of(const Plan& plan);

}  // namespace tessera::language
