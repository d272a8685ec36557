// SPDX-License-Identifier: Apache-2.0
#include "engine/summon/summon_ops.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/assert.h"

namespace tessera {

SummonOps::SummonOps(ShardedState& state, bool rank0_only)
    : state_(state),
      issuer_(state.issuer()),
      everyone_(issuer_.everyone()),
      holders_(rank0_only ? state.first_ranks() : everyone_) {}

std::string_view SummonOps::busy() const { return state_.parts().calls.busy(); }

// The compute stream waits for all others, so that everything submitted from here on sees the
// values of the last step.
Status SummonOps::begin(const std::vector<std::size_t>& units) {
  // First the door: from here to `end` no call of a pass gets in, also if something below fails.
  state_.parts().calls.begin_summon(units);
  TESSERA_TRY(state_.finish_gathers());
  TESSERA_TRY(state_.load_shards(false));
  const Cause why = issuer_.cause("", Reason::summon);
  for (StreamId stream : state_.side_streams()) {
    TESSERA_TRY(issuer_.wait_stream(issuer_.compute_stream(), stream, why));
  }
  return issuer_.runtime().wait(issuer_.last_compute());
}

void SummonOps::end(const std::vector<std::size_t>& units) {
  state_.parts().calls.end_summon(units);
}

bool SummonOps::owners_have_gradients() const {
  const std::vector<ParamShard*> all = state_.shards();
  return std::any_of(all.begin(), all.end(), [](const ParamShard* s) { return !s->where.empty(); });
}

SummonedUnit SummonOps::describe(std::size_t index, bool with_grads) const {
  const std::string_view name = unit_name(index);
  SummonedUnit unit;
  unit.values.name = fmt::format("{}.summoned", name);
  unit.gradients.name = fmt::format("{}.summoned_grad", name);
  unit.gradients.memory_class = MemoryClass::unsharded_gradients;
  unit.values.unit = unit.gradients.unit = name;
  for (const ParamShard* shard : state_.shards()) {
    if (shard->unit != name) continue;
    TESSERA_ASSERT(
        unit.values.sources.empty() || unit.values.groups.size == state_.groups_of(*shard).size,
        "the shards of a unit are shared by the same ranks");
    unit.values.groups = unit.gradients.groups = state_.groups_of(*shard);
    unit.values.own_group = unit.gradients.own_group = shard->own_group();
    unit.values.add(*shard, shard->values(), shard->unsharded);
    unit.left_unsharded |= shard->unsharded.buffer.valid();
    if (with_grads && shard->gradient.buffer.valid()) {
      unit.gradients.add(*shard, shard->gradient, {});
    }
  }
  return unit;
}

Result<BufferId> SummonOps::allocate(const FullCopy& copy, const char* suffix, Memory memory,
                                     const RankSet& where) {
  const bool host = memory == Memory::pinned_host;
  return issuer_.runtime().allocate(
      {.bytes = bytes_of(numel(copy), copy.dtype),
       .memory = memory,
       .memory_class = host ? MemoryClass::pinned_host : copy.memory_class,
       .stream = issuer_.compute_stream(),
       .where = where,
       .cause = issuer_.cause(copy.unit, Reason::summon),
       .name = copy.name + suffix});
}

Result<EventId> SummonOps::submit(const FullCopy& copy, decltype(Op::what) what,
                                  const RankSet& where) {
  const Cause why = issuer_.cause(copy.unit, Reason::summon);
  if (where == everyone_) return issuer_.submit(issuer_.compute_stream(), why, std::move(what));
  return issuer_.runtime().submit({.stream = issuer_.compute_stream(),
                                   .where = where,
                                   .after = {},
                                   .cause = why,
                                   .what = std::move(what)});
}

Status SummonOps::release(BufferId buffer, EventId after, const RankSet& where) {
  return where.empty() ? Status{} : issuer_.runtime().release(buffer, after, where);
}

Status SummonOps::open(SummonedUnit& unit, bool offload) {
  if (unit.values.sources.empty()) return {};
  TESSERA_TRY(state_.before_gather());
  TESSERA_TRY(gather(unit.values));
  TESSERA_TRY(leave_with_holders(unit.values, offload));
  TESSERA_TRY(submit(unit.values, Mark{marks::unsharded}, everyone_).status());
  if (unit.gradients.sources.empty()) return {};
  TESSERA_TRY(gather(unit.gradients));
  return leave_with_holders(unit.gradients, offload);
}

Status SummonOps::close(SummonedUnit& unit) {
  const bool opened = unit.values.buffer.valid();
  if (!opened) return {};
  // The unit is left as the scheme left it, so that its next pass finds what it expects.
  const Mark::Kind left = unit.left_unsharded ? marks::unsharded : marks::sharded;
  TESSERA_ASSIGN(const EventId done, submit(unit.values, Mark{left}, everyone_));
  for (FullCopy* copy : {&unit.values, &unit.gradients}) {
    const BufferId buffer = std::exchange(copy->buffer, BufferId{});
    if (buffer.valid()) TESSERA_TRY(release(buffer, done, copy->where));
  }
  return unit.left_unsharded ? Status{} : state_.after_free(unit.values.unit);
}

}  // namespace tessera
