// SPDX-License-Identifier: Apache-2.0
// deepspeed 0.19.8, PartitionedParameterCoordinator: reset_step, _clean_inflight_param_registry,
// release_and_reset_all, release_backward_leftovers.
#include "engine/schemes/zero3/policy/compatible_0_19_policy.h"

#include <algorithm>

#include "engine/schemes/zero3/parameters/marks.h"

namespace tessera {

Status Compatible019Policy::begin_forward(const ForwardPass& pass) {
  TESSERA_TRY(CompatiblePolicy::begin_forward(pass));
  TESSERA_TRY(land_all());
  in_backward_.clear();
  return start_over(coordinator(), 1);
}

// Gather by gather, whoever they were for. What looked at them is the last use of these copies
// alone.
Status Compatible019Policy::land_all() {
  std::vector<std::pair<std::int32_t, ParameterId>> flying;
  for (const OnDemandParameter& p : parameters()) {
    if (p.copy.flying()) flying.emplace_back(p.copy.flying()->number(), p.id);
  }
  std::sort(flying.begin(), flying.end());
  for (const auto& [gather, id] : flying) {
    TESSERA_TRY(mover().drop(at(id)));
    TESSERA_TRY(release(at(id)));
    at(id).copy.used({});
  }
  return {};
}

// One that is fetched again before it was released keeps its place.
Status Compatible019Policy::pre_backward(ModuleId module) {
  const auto known = std::find(in_backward_.begin(), in_backward_.end(), module);
  if (known == in_backward_.end()) in_backward_.push_back(module);
  return CompatiblePolicy::pre_backward(module);
}

Status Compatible019Policy::release_after_backward(ModuleId module) {
  std::erase(in_backward_, module);
  return CompatiblePolicy::release_after_backward(module);
}

bool Compatible019Policy::reads_ahead() const {
  return options().offload_param.device == Offload::Device::nvme;
}

// The youngest first. Persistent parameters stay, as do those that a module returned.
Status Compatible019Policy::end_pass(bool dropped) {
  if (dropped || !training()) return {};
  while (!in_backward_.empty()) {
    const ModuleId module = in_backward_.back();
    in_backward_.pop_back();
    TESSERA_TRY(release_left(module));
  }
  return {};
}

Status Compatible019Policy::release_left(ModuleId module) {
  for (ParameterId id : needs(module)) {
    at(id).active.erase(module);
    if (!at(id).persistent && !at(id).dangling) TESSERA_TRY(release(at(id)));
  }
  return {};
}

Status Compatible019Policy::release_all(bool noted) {
  for (OnDemandParameter& p : parameters()) {
    if (p.copy.flying()) TESSERA_TRY(mover().drop(p));
    p.active.clear();
    if (noted && p.copy.missing()) TESSERA_TRY(mover().note(p, {marks::kept}));
    TESSERA_TRY(release(p));
    p.copy.used({});
  }
  return mover().follow_dropped();
}

Status Compatible019Policy::before_step() {
  TESSERA_TRY(release_all(true));
  return mover().note({marks::all_released});
}

Status Compatible019Policy::values_changed() { return release_all(false); }

}  // namespace tessera
