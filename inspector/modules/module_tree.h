// SPDX-License-Identifier: Apache-2.0
// The modules of a trace as a tree, in the order in which they first run: sharding units, and what
// computes or holds memory by itself.
//
// The idea: the tree lies flat, parents before their children, so that a subtree is a range. What
// names no module of the tree belongs to the unit that it names, or to the model as a whole, which
// is node 0.
//
//   const ModuleTree tree(trace);
//   for (int n = 0; n < tree.size(); n = tree.end(n)) print(tree.node(n).name);
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::inspector {

struct ModuleNode {
  std::string path;  // "model.layers.3.mlp"; of node 0 ""
  std::string name;  // what it adds to its parent's: "mlp"
  int parent = -1;
  int depth = 0;
  int end = 0;        // one past its subtree
  bool unit = false;  // its parameters are gathered and reduced together
};

class ModuleTree {
 public:
  explicit ModuleTree(const analysis::Trace& trace);

  int size() const { return static_cast<int>(nodes_.size()); }
  const ModuleNode& node(int n) const { return nodes_[static_cast<std::size_t>(n)]; }
  int end(int n) const { return node(n).end; }

  /// Quick, for ops of the trace that the tree is of, which outlives it; 0 for any other.
  int of(const storage::OpRow& op) const;
  int of(const storage::BufferRow& buffer) const;

 private:
  /// A node on the way to the tree, children in the order of their first op.
  struct Draft {
    std::string path;
    bool unit = false;
    std::vector<std::size_t> children;
  };
  void add(const std::vector<Draft>& drafts, std::size_t draft, int parent);
  int longest(std::string_view path) const;

  std::vector<ModuleNode> nodes_;
  std::span<const storage::OpRow> ops_;
  std::vector<int> of_op_;  // as ops_
  std::map<std::string, int, std::less<>> by_path_;
};

}  // namespace tessera::inspector
