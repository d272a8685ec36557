// SPDX-License-Identifier: Apache-2.0
// Finds the units that a request means, and summons them at once or one by one.
#include "tessera/summon.h"

#include <fmt/format.h>

#include "engine/summon/summoned_params.h"

namespace tessera {
namespace {

bool is_at_or_below(const Model& model, ModuleId module, ModuleId root) {
  for (ModuleId m = module; m.valid(); m = model.module(m).parent) {
    if (m == root) return true;
  }
  return false;
}

Result<ShardedState*> summonable(Engine& engine) {
  ShardedState* const state = engine.sharded_state();
  if (state != nullptr) return state;
  return Status(Code::not_supported,
                "full parameters can only be summoned from an engine that fully_shard, fsdp1 or "
                "replicate made");
}

}  // namespace

Result<std::vector<std::size_t>> units_to_summon(const SummonOps& ops,
                                                 const SummonOptions& options) {
  const ModuleId root = ops.model().find_module(options.root);
  if (!root.valid()) {
    return Status(Code::invalid_argument,
                  fmt::format("there is no module '{}' in {}", options.root, ops.model().name));
  }
  const auto& units = ops.assignment().units;
  std::vector<std::size_t> wanted;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const bool meant = options.recurse ? is_at_or_below(ops.model(), units[u].module, root)
                                       : units[u].module == root;
    if (meant) wanted.push_back(u);
  }
  if (!wanted.empty()) return wanted;
  const std::size_t owner = ops.assignment().unit_of_module[root.index()];
  return Status(
      Code::invalid_argument,
      fmt::format("module {} is no unit{}: its parameters belong to unit {}", options.root,
                  options.recurse ? " and has none below it" : "", ops.unit_name(owner)));
}

Result<std::unique_ptr<FullParams>> summon_full_params(Engine& engine,
                                                       const SummonOptions& options) {
  TESSERA_ASSIGN(ShardedState* const state, summonable(engine));
  auto summoned = std::make_unique<SummonedParams>(*state, options);
  TESSERA_TRY(summoned->open());
  return std::unique_ptr<FullParams>(std::move(summoned));
}

Status for_each_unit(Engine& engine, const SummonOptions& options,
                     const std::function<Status(const std::string& unit, FullParams&)>& visit) {
  TESSERA_ASSIGN(ShardedState* const state, summonable(engine));
  const SummonOps ops(*state, options.rank0_only);
  TESSERA_ASSIGN(const auto wanted, units_to_summon(ops, options));
  for (const std::size_t index : wanted) {
    SummonOptions one = options;
    one.root = ops.model().module(ops.assignment().units[index].module).path;
    one.recurse = false;
    TESSERA_ASSIGN(const auto full, summon_full_params(engine, one));
    TESSERA_TRY(visit(std::string(ops.unit_name(index)), *full));
    TESSERA_TRY(full->close());
  }
  return {};
}

}  // namespace tessera
