// SPDX-License-Identifier: Apache-2.0
// The optimizer step: parameters are freed, partitions stepped group by group, and what is
// persistent is gathered again (deepspeed stage3.py: step).
#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

std::vector<OnDemandParameter*> Zero3Engine::members(std::size_t group) {
  std::vector<OnDemandParameter*> all;
  if (group >= sub_groups_.size()) return all;
  for (ParameterId id : sub_groups_[group]) all.push_back(&at(id));
  return all;
}

Status Zero3Engine::before_group(std::size_t group) {
  return states_swapper_.before_group(members(group), members(group + 1));
}

Status Zero3Engine::before_step() {
  TESSERA_TRY(policy_->before_step());
  TESSERA_TRY(states_swapper_.begin_step());
  return enter_update();
}

std::vector<std::vector<Held*>> Zero3Engine::step_groups() {
  shards();  // says where the gradients are
  std::vector<std::vector<Held*>> groups;
  for (const auto& members : sub_groups_) {
    groups.emplace_back();
    for (ParameterId id : members) groups.back().push_back(&at(id).held);
  }
  return groups;
}

Status Zero3Engine::after_group(std::size_t group) {
  if (group >= sub_groups_.size()) return {};
  std::vector<Held*> stepped;
  for (ParameterId id : sub_groups_[group]) stepped.push_back(&at(id).held);
  TESSERA_TRY(cast_partitions(stepped));
  TESSERA_TRY(states_swapper_.after_group(members(group), group + 1 == sub_groups_.size()));
  const auto number = static_cast<std::int32_t>(group);
  return note("root", "", {Mark::Kind::sub_group_ready, number}, Reason::step).status();
}

Status Zero3Engine::after_step() {
  forget_secondary();
  TESSERA_TRY(note("root", "", {Mark::Kind::step_done}, Reason::step).status());
  if (host_.valid()) TESSERA_TRY(wait_stream(compute_, all_gather_, cause("root", Reason::order)));
  return policy_->after_step();
}

}  // namespace tessera
