// SPDX-License-Identifier: Apache-2.0
// The controls of FSDPModule: explicit prefetch, unshard, reshard and gradient sync.
#include <fmt/format.h>

#include "engine/schemes/fully_shard/fully_shard_engine.h"

namespace tessera {

Result<Unit*> FullyShardEngine::named_unit(ModuleId module, const char* call) {
  const bool known = module.valid() && module.value < std::ssize(model_.modules);
  Unit* unit = known ? unit_of(module) : nullptr;
  if (unit != nullptr) return unit;
  return Status(Code::invalid_argument,
                fmt::format("{}: {} is no sharding unit", call,
                            known ? "module " + model_.module(module).path
                                  : fmt::format("module id {}", module.value)));
}

Result<std::vector<std::size_t>> FullyShardEngine::named_units(const std::vector<ModuleId>& modules,
                                                               const char* call) {
  std::vector<std::size_t> places;
  for (ModuleId module : modules) {
    TESSERA_ASSIGN(const Unit* unit, named_unit(module, call));
    places.push_back(place(*unit));
  }
  return places;
}

Status FullyShardEngine::set_modules_to_forward_prefetch(ModuleId unit,
                                                         const std::vector<ModuleId>& targets) {
  constexpr const char* call = "set_modules_to_forward_prefetch";
  TESSERA_ASSIGN(Unit* const from, named_unit(unit, call));
  TESSERA_ASSIGN(from->forward_prefetch, named_units(targets, call));
  return {};
}

Status FullyShardEngine::set_modules_to_backward_prefetch(ModuleId unit,
                                                          const std::vector<ModuleId>& targets) {
  constexpr const char* call = "set_modules_to_backward_prefetch";
  TESSERA_ASSIGN(Unit* const from, named_unit(unit, call));
  TESSERA_ASSIGN(from->backward_prefetch, named_units(targets, call));
  return {};
}

Status FullyShardEngine::unshard(ModuleId module) {
  TESSERA_ASSIGN(Unit* const unit, named_unit(module, "unshard"));
  if (stage_ == Stage::summoned) return expect(Stage::idle, "unshard");
  if (stage_ == Stage::idle) {  // the gather must see what the optimizer wrote
    const UnitTree& tree = tree_of(*unit);
    TESSERA_TRY(wait_stream(tree.copy_in, compute_, cause(unit->name, Reason::order)));
    TESSERA_TRY(wait_stream(tree.all_gather, compute_, cause(unit->name, Reason::order)));
  }
  return unshard(*unit, Reason::needed);
}

Status FullyShardEngine::reshard(ModuleId module) {
  TESSERA_ASSIGN(Unit* const unit, named_unit(module, "reshard"));
  if (stage_ == Stage::summoned) return expect(Stage::idle, "reshard");
  TESSERA_TRY(wait_for_unshard(*unit));
  return reshard(*unit);
}

Status FullyShardEngine::set_reshard_after_forward(ModuleId module, bool reshard) {
  TESSERA_ASSIGN(Unit* const unit, named_unit(module, "set_reshard_after_forward"));
  unit->reshard_after_forward = reshard;
  return {};
}

Status FullyShardEngine::set_requires_gradient_sync(ModuleId module, bool sync, bool recurse) {
  TESSERA_ASSIGN(Unit* const named, named_unit(module, "set_requires_gradient_sync"));
  named->requires_sync = sync;
  for (Unit& unit : units_) {
    for (ModuleId m = unit.module; recurse && m.valid(); m = model_.module(m).parent) {
      if (m == module) unit.requires_sync = sync;
    }
  }
  return {};
}

}  // namespace tessera
