// SPDX-License-Identifier: Apache-2.0
// Checks of an operation by itself: sizes, dtypes, bounds, whole groups. Checked once for
// all backends, at a cost that does not depend on the number of ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tessera/op.h"

namespace tessera {

/// Facts about handles that the checks need.
struct OpEnvironment {
  std::function<const RankGroups*(CommunicatorId)> groups;  // nullptr: no such communicator
  struct Buffer {
    Bytes bytes{};
    Memory memory = Memory::device;
  };
  std::function<std::optional<Buffer>(BufferId)> buffer;  // none: no such buffer
};

/// Fails: invalid_argument (sizes, dtypes, bounds), divergent (part of a group), in a sentence that
/// names op, unit and rank.
Status check_op(const Op& op, const OpEnvironment& environment);

/// "all_gather of unit model.layers.3", for messages.
std::string describe(const Op& op);

}  // namespace tessera
