// SPDX-License-Identifier: Apache-2.0
// Nodes of an execution trace before they have times: which depends on which, and which is inside
// of which.
//
// The idea: traces of programs that never ran have no times, and those of PyTorch's observer only
// an order. A node then takes a microsecond, after all that it waits for; so the picture shows the
// order and nothing else.
#pragma once

#include <vector>

#include "exchange/import/imported_run.h"

namespace tessera::exchange {

struct ExecutionNode {
  std::int64_t id = 0;
  std::int64_t order = -1;          // of its begin, where the trace tells; -1: unknown
  std::int64_t parent = -1;         // the node that it is inside of; -1: none
  std::vector<std::int64_t> after;  // nodes that it waits for
  Time begin = 0, duration = 0;     // ns; 0: unknown
  TextId name = 0;
  std::int64_t thread = 0;
  OpKind kind = OpKind::compute;
  bool host = false;
  // Of communication.
  bool collective = false;
  TextId group = 0, description = 0;
  std::int32_t group_size = 0;
  Bytes bytes{};
  DType dtype = DType::uint8;
  bool dtype_known = false;
};

/// Puts nodes into lanes of a rank; gives times to those that have none, with a warning.
void add_nodes(std::vector<ExecutionNode> nodes, ImportedRank& rank, ImportedRun& run);

}  // namespace tessera::exchange
