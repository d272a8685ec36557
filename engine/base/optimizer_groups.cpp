// SPDX-License-Identifier: Apache-2.0
// What the optimizer steps: everything that is trained and in a group.
#include <fmt/format.h>

#include <algorithm>

#include "engine/base/engine_base.h"
#include "engine/numbers/arithmetic.h"

namespace tessera {

bool EngineBase::steps(const ShardMap::Segment& segment) const {
  const ParamGroup* const group = param_groups_.group_of(segment.parameter);
  return segment.requires_grad && group != nullptr &&
         group->optimizer == only_optimizer_.value_or(group->optimizer);
}

bool EngineBase::steps(const Held& held) const {
  const auto& segments = held.map.segments();
  return std::any_of(segments.begin(), segments.end(),
                     [this](const ShardMap::Segment& s) { return steps(s); });
}

Status EngineBase::set_param_groups(const std::vector<ParamGroup>& groups) {
  TESSERA_TRY(expect(Stage::idle, "set_param_groups"));
  if (param_groups_.any_step()) {
    return Status(Code::invalid_argument,
                  "set_param_groups: the optimizer has state already; add groups, or give the "
                  "groups before the first step");
  }
  TESSERA_TRY(expect_no_gradients("set_param_groups"));
  TESSERA_TRY(param_groups_.set(groups));
  return on_param_groups();
}

Status EngineBase::add_param_group(const ParamGroup& group) {
  TESSERA_TRY(expect(Stage::idle, "add_param_group"));
  TESSERA_TRY(expect_no_gradients("add_param_group"));
  TESSERA_TRY(param_groups_.add(group));
  return on_param_groups();
}

Status EngineBase::set_adam(std::size_t group, const AdamOverrides& adam) {
  return param_groups_.set_adam(group, adam);
}

Status EngineBase::skip_step() {
  TESSERA_TRY(expect(Stage::idle, "step"));
  TESSERA_TRY(enter(Stage::idle, Phase::optimizer));
  TESSERA_TRY(before_step());
  auto looked_at = [](const std::vector<Held*>& held) {
    std::vector<View> gradients;
    for (const Held* h : held) {
      if (h->gradient.buffer.valid()) gradients.push_back(h->gradient);
    }
    return look_at(std::move(gradients));
  };
  TESSERA_ASSIGN(const EventId dropped,
                 submit_by_shard(active_, cause("", Reason::step), all_held(), looked_at));
  if (dropped.valid()) {
    TESSERA_TRY(free_gradients(dropped));
    TESSERA_TRY(free_local_gradients(dropped));
  }
  end_step();
  return {};
}

// Gradients of what is in no group are there and nobody's.
Result<EventId> EngineBase::drop_gradients() {
  if (only_optimizer_) return EventId{};  // they are another's
  std::vector<Held*> unused;
  for (Held* h : all_held()) {
    if (h->gradient.buffer.valid() && !steps(*h)) unused.push_back(h);
  }
  if (unused.empty()) return EventId{};
  return submit_by_shard(active_, cause("", Reason::step), unused,
                         [](const std::vector<Held*>& held) {
                           std::vector<View> gradients;
                           for (const Held* h : held) gradients.push_back(h->gradient);
                           return look_at(std::move(gradients));
                         });
}

Status EngineBase::expect_no_gradients(const char* call) {
  for (const Held* h : all_held()) {
    if (!h->gradient.buffer.valid()) continue;
    return Status(
        Code::invalid_argument,
        fmt::format("{}: {} has a gradient that waits for its step: step before", call, h->name));
  }
  return {};
}

void EngineBase::count_steps(const std::vector<Held*>& stepped) {
  for (const Held* h : stepped) {
    if (!h->gradient.buffer.valid()) continue;
    for (const auto& s : h->map.segments()) {
      if (steps(s)) param_groups_.count_step(s.parameter);
    }
  }
}

}  // namespace tessera
