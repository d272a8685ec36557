// SPDX-License-Identifier: Apache-2.0
// Which parameters belong to which unit, and those that belong to none: they are whole on every
// rank, and their gradients stay there.
#include "engine/base/engine_base.h"
#include "engine/numbers/arithmetic.h"

namespace tessera {

Status EngineBase::assign(const std::vector<std::string>& units,
                          const std::optional<WrapPlan>& plan, DType local_dtype) {
  if (!plan) {
    TESSERA_ASSIGN(assignment_, assign_units(model_, units));
    overrides_.resize(assignment_.units.size());
    return {};
  }
  if (!units.empty()) {
    return Status(Code::invalid_argument, "give units or a wrap plan, not both");
  }
  std::vector<ModuleId> modules;
  for (const WrapUnit& unit : plan->units) {
    if (unit.module.value < 0 || unit.module.value >= std::ssize(model_.modules)) {
      return Status(Code::invalid_argument, "the wrap plan was made for another model");
    }
    if (unit.module != ModuleId{0}) modules.push_back(unit.module);
  }
  std::vector<bool> ignored(model_.parameters.size(), false);
  for (ParameterId id : plan->ignored) ignored.at(id.index()) = true;
  TESSERA_ASSIGN(assignment_, assign_units(model_, modules, ignored));
  for (const auto& unit : assignment_.units) {
    overrides_.emplace_back();
    for (const WrapUnit& planned : plan->units) {
      if (planned.module == unit.module) overrides_.back() = planned.overrides;
    }
  }
  for (ParameterId id : plan->ignored) TESSERA_TRY(add_local(id, local_dtype));
  return {};
}

Status EngineBase::add_local(ParameterId id, DType dtype) {
  const Parameter& source = model_.parameter(id);
  Local own{.id = id, .held = {.whole = true, .name = source.name, .unit = "ignored"}};
  own.held.dtype = dtype;
  own.held.map = ShardMap({{id, Numel{0}, source.numel(), source.requires_grad}}, source.numel());
  TESSERA_ASSIGN(own.held.value, allocate(source.name, bytes_of(source.numel(), dtype),
                                          MemoryClass::unsharded_parameters, compute_,
                                          cause(own.held.unit, Reason::none)));
  locals_.push_back(std::move(own));
  return {};
}

EngineBase::Local* EngineBase::local(ParameterId id) {
  for (Local& own : locals_) {
    if (own.id == id) return &own;
  }
  return nullptr;
}

std::vector<Held*> EngineBase::locals_held() {
  std::vector<Held*> all;
  for (Local& own : locals_) {
    own.held.gradient = {};
    if (own.gradient.valid()) {
      own.held.gradient = View::whole(own.gradient, own.held.dtype, own.held.map.shard());
    }
    all.push_back(&own.held);
  }
  return all;
}

std::vector<Held*> EngineBase::all_held() {
  std::vector<Held*> all = held();
  for (Held* own : locals_held()) all.push_back(own);
  return all;
}

Result<View> EngineBase::local_gradient(Local& own) {
  const Numel numel = own.held.map.shard();
  if (!own.fresh.valid()) {
    TESSERA_ASSIGN(own.fresh, allocate(own.held.name + ".grad", bytes_of(numel, own.held.dtype),
                                       MemoryClass::unsharded_gradients, compute_,
                                       cause(own.held.unit, Reason::none)));
  }
  return View::whole(own.fresh, own.held.dtype, numel);
}

Status EngineBase::accumulate_locals() {
  for (Local& own : locals_) {
    if (!own.fresh.valid()) continue;
    if (!own.gradient.valid()) {
      own.gradient = std::exchange(own.fresh, BufferId{});
      continue;
    }
    const Numel numel = own.held.map.shard();
    TESSERA_ASSIGN(const EventId added,
                   submit(compute_, cause(own.held.unit, Reason::accumulate),
                          add(View::whole(own.fresh, own.held.dtype, numel),
                              View::whole(own.gradient, own.held.dtype, numel))));
    TESSERA_TRY(release(own.fresh, added));
  }
  return {};
}

Status EngineBase::free_local_gradients(EventId stepped) {
  for (Local& own : locals_) {
    if (own.gradient.valid()) TESSERA_TRY(release(own.gradient, stepped));
  }
  return {};
}

}  // namespace tessera
