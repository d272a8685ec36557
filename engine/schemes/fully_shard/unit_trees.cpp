// SPDX-License-Identifier: Apache-2.0
// Roots: the model's, or, where that is no unit, each unit that lies in no other (torch
// FSDPState._lazy_init makes a root of the first state of a tree that runs).
#include <fmt/format.h>

#include "engine/schemes/fully_shard/fully_shard_engine.h"

namespace tessera {
namespace {

// Later roots share the streams of earlier ones, as a pool of few lends them: that only orders more
// than is needed.
constexpr std::size_t own_streams = 3;

}  // namespace

// The root stays as a name for the whole, without parameters: those that no other unit holds belong
// to nobody, stay whole on every rank, and are not reduced.
Status FullyShardEngine::leave_root_plain() {
  UnitTable table(model_);
  TESSERA_TRY(table.assign(options_.units, options_.plan));
  const UnitAssignment& units = table.assignment();
  if (units.units.size() < 2) {
    return Status(Code::invalid_argument,
                  "plain_root: the root is the only unit: name modules that become units");
  }
  WrapPlan plan = options_.plan.value_or(WrapPlan{});
  for (std::size_t u = 0; u < units.units.size() && !options_.plan; ++u) {
    plan.units.push_back({.module = units.units[u].module});
  }
  const auto& own = units.units.front().parameters;
  plan.ignored.insert(plan.ignored.end(), own.begin(), own.end());
  options_.units.clear();
  options_.plan = std::move(plan);
  return {};
}

Status FullyShardEngine::create_streams(UnitTree& tree, const std::string& suffix) {
  TESSERA_ASSIGN(tree.copy_in, create_stream("ag_copy_in" + suffix, StreamRole::copy));
  TESSERA_ASSIGN(tree.all_gather, create_stream("all_gather" + suffix, StreamRole::communication));
  TESSERA_ASSIGN(tree.reduce_scatter,
                 create_stream("reduce_scatter" + suffix, StreamRole::communication));
  return {};
}

Status FullyShardEngine::create_all_reduce_streams() {
  for (std::size_t t = 0; t < trees_.size(); ++t) {
    if (trees_[t].all_reduce.valid()) continue;
    if (t >= own_streams) {
      trees_[t].all_reduce = trees_[t % own_streams].all_reduce;
      continue;
    }
    const std::string suffix = t == 0 ? "" : fmt::format(" {}", t + 1);
    TESSERA_ASSIGN(trees_[t].all_reduce,
                   create_stream("all_reduce" + suffix, StreamRole::communication));
  }
  return {};
}

// Which tree a unit belongs to: that of the unit around it.
Status FullyShardEngine::plant(std::size_t index, Unit& unit) {
  if (!options_.plain_root || index == 0) return {};
  for (ModuleId m = model_.module(unit.module).parent; m.valid(); m = model_.module(m).parent) {
    const int around = unit_at(m);
    if (around <= 0) continue;
    unit.tree = units_[static_cast<std::size_t>(around)].tree;
    return {};
  }
  const bool first = trees_.front().root == 0;
  if (!first) {
    const std::size_t place = trees_.size();
    if (place < own_streams) {
      TESSERA_TRY(create_streams(trees_.emplace_back(), fmt::format(" {}", place + 1)));
    } else {
      const UnitTree& lender = trees_[place % own_streams];
      UnitTree tree;
      tree.copy_in = lender.copy_in;
      tree.all_gather = lender.all_gather;
      tree.reduce_scatter = lender.reduce_scatter;
      trees_.push_back(std::move(tree));
    }
  }
  unit.tree = trees_.size() - 1;
  trees_.back().root = index;
  return {};
}

// Gathers must see what the optimizer wrote.
Status FullyShardEngine::follow_optimizer(UnitTree& tree) {
  const Cause why = cause(root_name(tree), Reason::order);
  TESSERA_TRY(wait_stream(tree.copy_in, compute_, why));
  return wait_stream(tree.all_gather, compute_, why);
}

void FullyShardEngine::enter_backward(UnitTree& tree) {
  if (tree.in_backward) return;
  tree.in_backward = true;
  backward_order_.push_back(static_cast<std::size_t>(&tree - trees_.data()));
}

// What autograd calls behind the last layer, for each root in the order in which they began.
Status FullyShardEngine::end_backward(std::size_t place, bool first) {
  UnitTree& tree = trees_[place];
  for (Unit& unit : units_) {
    if (unit.tree != place) continue;
    unit.post_forward_indices.clear();
    // The root, and units whose end autograd does not tell.
    if (!unit.finished_backward) TESSERA_TRY(reduce_gradients(unit));
    unit.finished_backward = false;
  }
  if (first) TESSERA_TRY(locals_.accumulate());
  if (is_last_backward_) {
    TESSERA_TRY(finish_reduce(tree));
    for (Unit& unit : units_) {
      if (unit.tree == place) TESSERA_TRY(drop_gather(unit));
    }
  }
  tree.forward_order.clear();
  tree.in_backward = false;
  return {};
}

}  // namespace tessera
