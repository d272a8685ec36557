// SPDX-License-Identifier: Apache-2.0
#include "engine/base/optimizer_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/base/local_parameters.h"
#include "engine/numbers/arithmetic.h"

namespace tessera {
namespace {

Compute read_of_gradients(const std::vector<ParamShard*>& shards) {
  std::vector<View> gradients;
  for (const ParamShard* shard : shards) {
    if (shard->gradient.buffer.valid()) gradients.push_back(shard->gradient);
  }
  return declare_read(std::move(gradients));
}

}  // namespace

OptimizerStep::OptimizerStep(Issuer& issuer, ShardedState& state, StepHooks& scheme)
    : issuer_(issuer),
      state_(state),
      scheme_(scheme),
      groups_(issuer.model()),
      powers_(issuer.model().parameters.size()) {}

bool OptimizerStep::steps(const ShardMap::Segment& segment) const {
  const ParamGroup* const group = groups_.group_of(segment.parameter);
  return segment.requires_grad && group != nullptr && selects(group->optimizer);
}

bool OptimizerStep::steps(const ParamShard& shard) const {
  const auto& segments = shard.map.segments();
  return std::any_of(segments.begin(), segments.end(),
                     [this](const ShardMap::Segment& s) { return steps(s); });
}

Status OptimizerStep::set_groups(const std::vector<ParamGroup>& groups) {
  TESSERA_TRY(state_.parts().calls.expect(CallOrder::Stage::idle, "set_param_groups"));
  if (groups_.any_step()) {
    return Status(Code::invalid_argument,
                  "set_param_groups: the optimizer has state already; add groups, or give the "
                  "groups before the first step");
  }
  TESSERA_TRY(scheme_.expect_no_gradients("set_param_groups"));
  TESSERA_TRY(groups_.set(groups));
  return scheme_.on_param_groups();
}

Status OptimizerStep::add_group(const ParamGroup& group) {
  TESSERA_TRY(state_.parts().calls.expect(CallOrder::Stage::idle, "add_param_group"));
  TESSERA_TRY(scheme_.expect_no_gradients("add_param_group"));
  TESSERA_TRY(groups_.add(group));
  return scheme_.on_param_groups();
}

Status OptimizerStep::expect_no_gradients(const char* call) {
  for (const ParamShard* shard : state_.all_shards()) {
    if (!shard->gradient.buffer.valid()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: {} has a gradient that waits for its step: step before", call,
                              shard->name));
  }
  return {};
}

// Parameters in no unit go with the last group, even if a scheme has none.
std::vector<std::vector<ParamShard*>> OptimizerStep::groups_to_step() {
  auto groups = scheme_.step_groups();
  if (groups.empty()) groups.emplace_back();
  for (ParamShard* own : state_.local_shards()) groups.back().push_back(own);
  return groups;
}

Status OptimizerStep::begin(const AdamOptions& options) {
  if (std::exchange(begun_, true)) return {};
  TESSERA_TRY(check_states(options));
  return allocate_moments(options);
}

Status OptimizerStep::step(const AdamOptions& options) {
  TESSERA_TRY(state_.parts().calls.expect(CallOrder::Stage::idle, "step"));
  // Before the phase is marked: a step that is refused for its options leaves nothing behind.
  TESSERA_TRY(check_states(options));
  TESSERA_TRY(issuer_.begin_phase(Phase::optimizer));
  TESSERA_TRY(scheme_.complete_gradients());
  TESSERA_TRY(scheme_.before_step());
  TESSERA_TRY(allocate_moments(options));
  const auto groups = groups_to_step();
  const Cause why = issuer_.cause("", Reason::step);
  TESSERA_TRY(issuer_.enter_host(why));
  EventId stepped;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    TESSERA_TRY(scheme_.before_group(g));
    TESSERA_ASSIGN(const EventId done, issuer_.issue_by_shard(issuer_.active(), why, groups[g],
                                                              [&](const auto& shards) {
                                                                return adam_work(shards, options);
                                                              }));
    if (done.valid()) stepped = done;
    TESSERA_TRY(scheme_.after_group(g));
  }
  TESSERA_TRY(issuer_.leave_host(why));
  // Gradients are released after an event of the compute stream, which has now waited for the
  // CPU's: one event of the last group would say nothing about groups that the other of the two
  // stepped.
  if (issuer_.host_stream().valid() && stepped.valid()) {
    TESSERA_ASSIGN(stepped, issuer_.submit_on(issuer_.active(), issuer_.compute_stream(), why,
                                              declare_read({})));
  }
  TESSERA_ASSIGN(const EventId dropped, drop_unstepped_gradients());
  if (dropped.valid()) stepped = dropped;
  if (stepped.valid()) {
    // Steps are counted while gradients still say who was stepped.
    for (const auto& group : groups) count_steps(group);
    TESSERA_TRY(free_gradients(stepped));
    TESSERA_TRY(scheme_.share_stepped());
  }
  TESSERA_TRY(scheme_.after_step());
  issuer_.end_step();
  return {};
}

Status OptimizerStep::skip() {
  TESSERA_TRY(state_.parts().calls.expect(CallOrder::Stage::idle, "step"));
  TESSERA_TRY(issuer_.begin_phase(Phase::optimizer));
  TESSERA_TRY(scheme_.before_step());
  TESSERA_ASSIGN(const EventId dropped,
                 issuer_.submit_by_shard(issuer_.active(), issuer_.cause("", Reason::step),
                                         state_.all_shards(), read_of_gradients));
  if (dropped.valid()) TESSERA_TRY(free_gradients(dropped));
  issuer_.end_step();
  return {};
}

// Gradients of what is in no group are there and nobody's; without a look they could not be freed.
Result<EventId> OptimizerStep::drop_unstepped_gradients() {
  if (selected_) return EventId{};  // they are another optimizer's
  std::vector<ParamShard*> unused;
  for (ParamShard* shard : state_.all_shards()) {
    if (shard->gradient.buffer.valid() && !steps(*shard)) unused.push_back(shard);
  }
  if (unused.empty()) return EventId{};
  return issuer_.submit_by_shard(issuer_.active(), issuer_.cause("", Reason::step), unused,
                                 read_of_gradients);
}

Status OptimizerStep::free_gradients(EventId stepped) {
  TESSERA_TRY(scheme_.free_gradients(stepped));
  return state_.parts().locals.free_gradients(stepped);
}

void OptimizerStep::count_steps(const std::vector<ParamShard*>& stepped) {
  for (const ParamShard* shard : stepped) {
    if (!shard->gradient.buffer.valid()) continue;
    for (const auto& s : shard->map.segments()) {
      if (steps(s)) groups_.count_step(s.parameter);
    }
  }
}

}  // namespace tessera
