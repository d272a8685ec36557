// SPDX-License-Identifier: Apache-2.0
// Where the parts of a rank's workspace lie in its buffer.
#pragma once

#include "engine/train/language/plan.h"

namespace tessera::language {

struct WorkspaceLayout {
  Workspace work;
  Bytes bytes{};
  Bytes scratch_of_thread{};
};

/// `apart`: blocks are computed again in backward, so the stream and its gradient live at once.
WorkspaceLayout workspace_at(std::byte* base, const Plan& plan, bool apart);

/// tokens as given -> inputs and targets. REQUIRES: ids below the size of the vocabulary.
void split_tokens(const Plan& plan, const Workspace& work);

}  // namespace tessera::language
