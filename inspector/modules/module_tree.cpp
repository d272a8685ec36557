// SPDX-License-Identifier: Apache-2.0
#include "inspector/modules/module_tree.h"

#include <functional>
#include <set>
#include <unordered_map>

namespace tessera::inspector {
namespace {

constexpr std::string_view root_unit = "root";  // the engine's name of what no other unit has

// Of the longest to the shortest: "a.b.c", "a.b", "a"; "" at last.
std::string_view shorter(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

}  // namespace

ModuleTree::ModuleTree(const analysis::Trace& trace) : ops_(trace.typical_ops()) {
  std::set<std::string, std::less<>> units;
  for (const storage::UnitRow& unit : trace.info().units) units.insert(unit.name);
  std::vector<Draft> drafts(1);
  drafts[0].unit = units.contains(root_unit);
  std::unordered_map<std::string_view, std::size_t> known;  // of paths that `trace` owns
  const auto meet = [&](const std::string& path) {
    if (path.empty() || path == root_unit || known.contains(path)) return;
    known[path] = drafts.size();
    drafts.push_back({path, units.contains(path), {}});
  };
  // Units are set up and gathered in an order of their own: computations say what runs first.
  for (const storage::OpRow& op : trace.typical_ops()) {
    if (op.kind != OpKind::compute || op.phase != Phase::forward) continue;
    meet(op.unit);
    meet(op.module);
  }
  for (const storage::OpRow& op : trace.typical_ops()) {
    meet(op.unit);
    meet(op.module);
  }
  for (const storage::UnitRow& unit : trace.info().units) meet(unit.name);
  for (std::size_t d = 1; d < drafts.size(); ++d) {
    std::string_view above = shorter(drafts[d].path);
    while (!above.empty() && !known.contains(above)) above = shorter(above);
    drafts[above.empty() ? 0 : known[above]].children.push_back(d);
  }
  add(drafts, 0, -1);
  of_op_.reserve(ops_.size());
  for (const storage::OpRow& op : ops_) {
    of_op_.push_back(longest(op.module.empty() ? op.unit : op.module));
  }
}

void ModuleTree::add(const std::vector<Draft>& drafts, std::size_t draft, int parent) {
  const int number = size();
  const Draft& from = drafts[draft];
  const std::size_t above = parent < 0 ? 0 : node(parent).path.size();
  const int depth = parent < 0 ? 0 : node(parent).depth + 1;
  nodes_.push_back(
      {from.path, from.path.substr(above > 0 ? above + 1 : 0), parent, depth, 0, from.unit});
  by_path_[from.path] = number;
  for (const std::size_t child : from.children) add(drafts, child, number);
  nodes_[static_cast<std::size_t>(number)].end = size();
}

int ModuleTree::longest(std::string_view path) const {
  for (; !path.empty(); path = shorter(path)) {
    const auto found = by_path_.find(path);
    if (found != by_path_.end()) return found->second;
  }
  return 0;
}

int ModuleTree::of(const storage::OpRow& op) const {
  const std::less<const storage::OpRow*> before;
  const bool own = !before(&op, ops_.data()) && before(&op, ops_.data() + ops_.size());
  return own ? of_op_[static_cast<std::size_t>(&op - ops_.data())] : 0;
}

int ModuleTree::of(const storage::BufferRow& buffer) const {
  std::string_view name = buffer.name;
  if (name.starts_with("root.")) name.remove_prefix(root_unit.size() + 1);
  const int node = longest(name);
  return node > 0 ? node : longest(buffer.unit);
}

}  // namespace tessera::inspector
