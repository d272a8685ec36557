// SPDX-License-Identifier: Apache-2.0
// Operations of the program, and steps that repeat: the backend keeps the calls of two, and makes
// those of all that follow.
#include <algorithm>
#include <cmath>

#include "engine/runtime/stream_order.h"
#include "sim/lockstep/lockstep_backend.h"

namespace tessera::sim {

// What was measured of the part, if anything was.
Time LockstepBackend::measured(const Op& op, Time cost) const {
  if (options_.parts.empty()) return cost;
  const std::string_view part = part_of(op.cause.module, op.cause.reason);
  for (const PartTime& time : options_.parts) {
    if (time.phase != op.cause.phase || time.part != part) continue;
    return time.start_ns + std::llround(time.factor * static_cast<double>(cost));
  }
  return cost;
}

OpCosts LockstepBackend::costs_of(const Op& op) const {
  OpCosts costs;
  if (const auto* const compute = std::get_if<Compute>(&op.what)) {
    costs.kernel = measured(op, options_.cost->compute(compute->cost));
  } else if (const auto* const copy = std::get_if<Copy>(&op.what)) {
    costs.kernel = measured(op, options_.cost->copy(bytes_of(op), copy->route));
  } else if (const CommunicatorId id = communicator_of(op); id.valid()) {
    const CommunicatorState& groups = communicators_[id.index()];
    for (std::size_t g = 0; g < groups.shapes.size(); ++g) {
      CollectiveShape shape = groups.shapes[g];
      shape.kind = kind_of(op);
      shape.bytes = bytes_of(op);
      const Time cost = options_.cost->collective(shape);
      const double slowness = groups.slowness[g];
      costs.groups.push_back(slowness == 1 ? cost
                                           : std::llround(slowness * static_cast<double>(cost)));
    }
  }
  return costs;
}

Status LockstepBackend::execute(const Op& op, EventId event) {
  const OpCosts costs = costs_of(op);
  if (keeps_calls_) record(op, event, costs);
  carry_out(op, event, costs, first_live_event());
  return options_.numerics ? do_numbers(op) : Status();
}

// What is over for every stream means nothing.
EventId LockstepBackend::if_live(EventId event) const {
  return event.valid() && find(event) != nullptr ? event : EventId{};
}

void LockstepBackend::record(const Op& op, EventId event, const OpCosts& costs) {
  std::vector<EventId> after;
  for (const EventId id : op.after) {
    if (if_live(id).valid()) after.push_back(id);
  }
  const EventId over = over_before();
  if (!over.valid()) calls_.spoil();
  calls_.add(OpCall(op, std::move(after), event, over, costs));
}

bool LockstepBackend::step_repeats() {
  if (options_.numerics) return false;
  const bool repeats = keeps_calls_ && calls_.follow(calls_before_);
  if (repeats) {
    calls_before_.clear();
    own_steps_ = calls_.step();
    live_ = first_live_event();
  } else {
    std::swap(calls_before_, calls_);
    calls_.clear();
  }
  keeps_calls_ = !repeats;
  return repeats;
}

Status LockstepBackend::repeat_step() {
  TESSERA_ASSERT(own_steps_ < std::numeric_limits<std::int32_t>::max(), "the last step repeats");
  calls_.advance();
  Repetition repetition{*this};
  for (StepCall& call : calls_.calls()) TESSERA_TRY(std::visit(repetition, call));
  return {};
}

Status LockstepBackend::Repetition::operator()(OpCall& call) {
  call.op.after = call.after;
  if (forgets_after(call.event)) {
    const EventId too_old{call.event.value + 1 - StreamOrder::events_kept};
    backend.live_ = std::max({backend.live_, call.over, too_old});
  }
  backend.carry_out(call.op, call.event, call.costs, backend.live_);
  return {};
}

Status LockstepBackend::Repetition::operator()(RequestCall& call) {
  call.request.name = call.name;  // which may have moved since
  backend.requested(call.id, call.request);
  latest = &call;
  return {};
}

Status LockstepBackend::Repetition::operator()(PlaceCall& call) {
  return backend.placed(latest->id, latest->request, call.ranks, {call.offset, call.device});
}

Status LockstepBackend::Repetition::operator()(ReleaseCall& call) {
  const auto waits = [&](StreamId, Rank rank) {
    const auto asked = std::find_if(call.waits.begin(), call.waits.end(),
                                    [rank](const auto& known) { return known.first == rank; });
    TESSERA_ASSERT(asked != call.waits.end(), "ranks part in the same way in every step");
    return asked->second;
  };
  backend.released(call.id, call.buffer, call.after, call.ranks, waits);
  return {};
}

Status LockstepBackend::Repetition::operator()(AwaitCall& call) {
  backend.awaited(call.event);
  return {};
}

Status LockstepBackend::Repetition::operator()(ReadCall&) {
  backend.number_read();
  return {};
}

}  // namespace tessera::sim
