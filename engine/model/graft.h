// SPDX-License-Identifier: Apache-2.0
// Models that are parts of a larger one.
#pragma once

#include "tessera/model.h"

namespace tessera {

/// Adds the modules below the root of `part` to the root of `onto`, behind its children, and what
/// they run to its order; `onto` gets the warnings of `part`, too. REQUIRES: the root of `part` has
/// no parameters of its own, and none of its children is called as one of `onto`.
void graft(Model& onto, const Model& part);

}  // namespace tessera
