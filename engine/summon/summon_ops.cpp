// SPDX-License-Identifier: Apache-2.0
#include "engine/summon/summon_ops.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

SummonOps::SummonOps(EngineBase& engine, bool rank0_only)
    : engine_(engine),
      groups_(engine.shard_groups()),
      everyone_(engine.everyone_),
      holders_(rank0_only ? engine.first_ranks() : everyone_) {}

std::string_view SummonOps::busy() const {
  switch (engine_.stage_) {
    case EngineBase::Stage::idle: return "";
    case EngineBase::Stage::forward: return "in forward: finish the step's backward first";
    case EngineBase::Stage::backward: return "in backward: call end_backward first";
    case EngineBase::Stage::summoned: return "while others are: close their FullParams first";
  }
  return "";
}

// The compute stream waits for all others, so that everything submitted from here on sees the
// values of the last step.
Status SummonOps::begin() {
  engine_.stage_ = EngineBase::Stage::summoned;
  TESSERA_TRY(engine_.finish_gathers());
  TESSERA_TRY(engine_.hold_all(false));
  const Cause why = engine_.cause("", Reason::summon);
  for (StreamId stream : engine_.side_streams()) {
    TESSERA_TRY(engine_.wait_stream(engine_.compute_, stream, why));
  }
  return engine_.runtime_.wait(engine_.last_compute());
}

void SummonOps::end() { engine_.stage_ = EngineBase::Stage::idle; }

bool SummonOps::owners_have_gradients() const {
  const std::vector<Held*> all = engine_.held();
  return std::any_of(all.begin(), all.end(), [](const Held* h) { return !h->where.empty(); });
}

SummonedUnit SummonOps::describe(std::size_t index, bool with_grads) const {
  const std::string_view name = unit_name(index);
  SummonedUnit unit;
  unit.values.name = fmt::format("{}.summoned", name);
  unit.gradients.name = fmt::format("{}.summoned_grad", name);
  unit.gradients.memory_class = MemoryClass::unsharded_gradients;
  unit.values.unit = unit.gradients.unit = name;
  for (const Held* held : engine_.held()) {
    if (held->unit != name) continue;
    const View value = held->values();
    unit.values.add(*held, value, held->unsharded);
    unit.left_unsharded |= held->unsharded.buffer.valid();
    if (with_grads && held->gradient.buffer.valid()) {
      unit.gradients.add(*held, held->gradient, {});
    }
  }
  return unit;
}

Result<BufferId> SummonOps::allocate(const FullCopy& copy, const char* suffix, Memory memory,
                                     const RankSet& where) {
  const bool host = memory == Memory::pinned_host;
  return engine_.runtime_.allocate(
      {.bytes = bytes_of(numel(copy), copy.dtype),
       .memory = memory,
       .memory_class = host ? MemoryClass::pinned_host : copy.memory_class,
       .stream = engine_.compute_,
       .where = where,
       .cause = engine_.cause(copy.unit, Reason::summon),
       .name = copy.name + suffix});
}

Result<EventId> SummonOps::submit(const FullCopy& copy, decltype(Op::what) what,
                                  const RankSet& where) {
  const Cause why = engine_.cause(copy.unit, Reason::summon);
  if (where == everyone_) return engine_.submit(engine_.compute_, why, std::move(what));
  return engine_.runtime_.submit({.stream = engine_.compute_,
                                  .where = where,
                                  .after = {},
                                  .cause = why,
                                  .what = std::move(what)});
}

Status SummonOps::release(BufferId buffer, EventId after, const RankSet& where) {
  return where.empty() ? Status{} : engine_.runtime_.release(buffer, after, where);
}

Status SummonOps::open(SummonedUnit& unit, bool offload) {
  if (unit.values.sources.empty()) return {};
  TESSERA_TRY(engine_.before_gather());
  TESSERA_TRY(gather(unit.values));
  TESSERA_TRY(hand_out(unit.values, offload));
  TESSERA_TRY(submit(unit.values, Mark{Mark::Kind::unsharded}, everyone_).status());
  if (unit.gradients.sources.empty()) return {};
  TESSERA_TRY(gather(unit.gradients));
  return hand_out(unit.gradients, offload);
}

Status SummonOps::close(SummonedUnit& unit) {
  const bool opened = unit.values.buffer.valid();
  if (!opened) return {};
  const Mark::Kind left = unit.left_unsharded ? Mark::Kind::unsharded : Mark::Kind::sharded;
  TESSERA_ASSIGN(const EventId done, submit(unit.values, Mark{left}, everyone_));
  for (FullCopy* copy : {&unit.values, &unit.gradients}) {
    const BufferId buffer = std::exchange(copy->buffer, BufferId{});
    if (buffer.valid()) TESSERA_TRY(release(buffer, done, copy->where));
  }
  return unit.left_unsharded ? Status{} : engine_.after_free(unit.values.unit);
}

}  // namespace tessera
