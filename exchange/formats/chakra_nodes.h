// SPDX-License-Identifier: Apache-2.0
// Nodes of Chakra, whether protobuf or JSON says them.
//
// The idea: a node's type and attributes have the same names in both, so a reader only fills in
// what it finds, and what that means is decided here, once all are known: calls of collectives on
// the host count as host work where the file has the kernels, too.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "exchange/formats/execution_nodes.h"
#include "exchange/import/format.h"

namespace tessera::exchange {

struct ChakraNode {
  ExecutionNode node;
  std::int64_t type = 0;        // NodeType
  std::int64_t comm_type = -1;  // CollectiveCommType; -1: the name tells
};

/// Of "COMM_COLL_NODE" or a number, "ALL_REDUCE" or a number; -1 for other texts.
std::int64_t chakra_node_type(std::string_view text);
std::int64_t chakra_comm_type(std::string_view text);

/// Microseconds to ns, within what a trace can hold.
Time chakra_time(std::int64_t microseconds);

/// An attribute by its name in either schema; what is not known is passed over.
struct ChakraAttribute {
  std::string_view name, text;
  std::int64_t integer = 0;
};
void add_attribute(const ChakraAttribute& attribute, ImportedRun& run, ChakraNode& node);

class ChakraNodes {
 public:
  ChakraNodes(const SourceFile& source, const ImportLimits& limits, ImportedRun& run)
      : source_(source), limits_(limits), run_(run) {}

  /// `bytes` of the file say it. Fails: corrupt (bytes that say nothing), out_of_memory.
  Status add(ChakraNode node, std::int64_t bytes);
  /// Adds all to the rank that the file's name tells. Fails: invalid_argument (none).
  Status finish();

 private:
  const SourceFile& source_;
  const ImportLimits& limits_;
  ImportedRun& run_;
  std::vector<ExecutionNode> nodes_;
  std::vector<std::pair<std::int64_t, std::int64_t>> types_;  // of each: type, comm_type
  std::int64_t bytes_ = 0, dependencies_ = 0;
};

}  // namespace tessera::exchange
