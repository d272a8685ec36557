// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/gather/parameter_mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/numbers/arithmetic.h"
#include "engine/schemes/zero3/parameters/marks.h"

namespace tessera {

Status ParameterMover::note(ModuleId module, Mark mark) {
  const Reason reason = tools_.operations.recomputing() ? Reason::recompute : Reason::none;
  return tools_.operations
      .note(tools_.facts.compute, cause(tools_.operations.unit_of(module), reason),
            tools_.facts.model.module(module).path, mark)
      .status();
}

Status ParameterMover::note(const OnDemandParameter& p, Mark mark, Reason reason) {
  return tools_.operations
      .note(tools_.facts.compute, cause(p.shard.unit, reason), tools_.facts.name(p.id), mark)
      .status();
}

Status ParameterMover::note(Mark mark) {
  return tools_.operations.note(tools_.facts.compute, cause("root", Reason::none), "", mark)
      .status();
}

// One collective for all of them, in the order of ids: every rank and every pass the same, however
// the policy came by them.
Status ParameterMover::gather(std::vector<ParameterId> missing, Reason reason) {
  if (missing.empty()) return {};
  std::sort(missing.begin(), missing.end());
  const auto gather = std::make_shared<Gather>(tools_, ++gathers_, std::move(missing));
  const Status begun = begin(gather, reason);
  if (begun.ok()) return begun;
  // They must not look as if somebody could wait for them: whoever sees the failure may still ask
  // what is gathered, and closes what it holds.
  for (ParameterId id : gather->parameters()) at(id).copy.give_up();
  return begun;
}

Status ParameterMover::begin(const std::shared_ptr<Gather>& gather, Reason reason) {
  for (ParameterId id : gather->parameters()) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(note(p, {marks::in_flight, gather->number()}, reason));
    p.copy.fly(gather);
  }
  const Cause why = cause(at(gather->parameters().front()).shard.unit, reason);
  if (!gather->from_secondary()) {
    TESSERA_TRY(tools_.partitions.prepare(gather->parameters()));
  }
  TESSERA_TRY(follow_freed(why.unit));
  return gather->begin(why);
}

// DeepSpeed frees with record_stream: memory is used again when the device happens to be done.
// Here gathers follow the last uses of what was freed, so its memory can be theirs by order.
Status ParameterMover::follow_freed(std::string_view unit) {
  if (freed_.empty()) return {};
  TESSERA_TRY(
      tools_.operations.submit(tools_.facts.all_gather, cause(unit, Reason::order), Wait{}, freed_)
          .status());
  freed_.clear();
  return {};
}

// Allocated on the compute stream and gathered past the stream of gathers: nothing overlaps here.
Status ParameterMover::gather_now(const std::vector<ParameterId>& missing, Reason reason) {
  if (missing.empty()) return {};
  const Zero3Facts& facts = tools_.facts;
  const Cause why = cause("root", reason);
  TESSERA_TRY(tools_.partitions.prepare(missing));
  std::vector<View> gathered;
  for (ParameterId id : missing) {
    TESSERA_ASSIGN(const View full, gather_alone(at(id), reason, gathered.empty()));
    gathered.push_back(full);
  }
  TESSERA_TRY(tools_.operations.wait_stream(facts.compute, facts.nccl, why));
  TESSERA_ASSIGN(const EventId seen,
                 tools_.operations.submit(facts.compute, why, declare_read(std::move(gathered))));
  return tools_.operations.wait(seen);
}

Result<View> ParameterMover::gather_alone(OnDemandParameter& p, Reason reason, bool first) {
  const Zero3Facts& facts = tools_.facts;
  TESSERA_TRY(tools_.memory.allocate(p, facts.compute, cause("root", reason)));
  const View full = tools_.memory.view(p);
  if (first) {
    TESSERA_TRY(
        tools_.operations.wait_stream(facts.nccl, facts.compute, cause("root", Reason::order)));
  }
  const Cause own = cause(p.shard.unit, reason);
  if (facts.ranks == 1) {
    const GatherPart part{p.id, tools_.partitions.of(p), full, p.home};
    TESSERA_TRY(tools_.partitions.bring(facts.nccl, own, {}, {part}).status());
  } else {
    TESSERA_ASSIGN(const View input, tools_.partitions.gather_input(p, full, facts.nccl, own));
    TESSERA_TRY(
        tools_.operations.submit(facts.nccl, own, AllGather{facts.world, input, full}).status());
  }
  // The caller waits for all of them together, so nobody has to wait for this one.
  p.copy.take();
  return full;
}

Result<bool> ParameterMover::arrive(OnDemandParameter& p) {
  if (!p.copy.flying()) return false;
  const std::shared_ptr<Gather> gather = p.copy.wait();
  TESSERA_TRY(gather->finish());
  TESSERA_TRY(note(p, {marks::unsharded, gather->number()}, Reason::needed));
  return true;
}

// Its result is looked at where gathers run, so that the model's work does not wait for it.
Status ParameterMover::drop(OnDemandParameter& p) {
  if (!p.copy.flying()) return {};
  const std::shared_ptr<Gather> gather = p.copy.flying();
  TESSERA_TRY(arrive(p).status());
  const Cause why = cause(p.shard.unit, Reason::free_memory);
  const StreamId stream = tools_.facts.all_gather;
  TESSERA_TRY(tools_.operations.wait_event(stream, gather->done(), why));
  TESSERA_ASSIGN(const EventId looked,
                 tools_.operations.submit(stream, why, declare_read({tools_.memory.view(p)})));
  p.copy.used(looked);
  dropped_ = true;
  return {};
}

// Whoever writes partitions does so after the compute stream, which has not seen dropped gathers.
Status ParameterMover::follow_dropped() {
  if (!std::exchange(dropped_, false)) return {};
  return tools_.operations.wait_stream(tools_.facts.compute, tools_.facts.all_gather,
                                       cause("root", Reason::order));
}

// What flies was gathered from values that may be old soon.
Status ParameterMover::finish_all() {
  for (OnDemandParameter& p : tools_.parameters) {
    if (p.copy.flying()) {
      TESSERA_TRY(drop(p));
      TESSERA_TRY(free(p));
    }
    p.copy.used({});  // whoever asked may read it, too
  }
  dropped_ = false;
  return tools_.operations.wait_stream(tools_.facts.compute, tools_.facts.all_gather,
                                       cause("root", Reason::order));
}

// Its memory is free after its last use; the next gather has to follow that, whoever gets it.
Status ParameterMover::free(OnDemandParameter& p) {
  if (!p.copy.available() || !p.active.empty()) return {};
  TESSERA_TRY(note(p, {marks::sharded}, Reason::free_memory));
  // strict knows the last use when the module is left, and what runs between then and now need not
  // be waited for.
  const EventId after = p.copy.last_use().valid() ? p.copy.last_use() : worked();
  if (std::find(freed_.begin(), freed_.end(), after) == freed_.end()) freed_.push_back(after);
  TESSERA_TRY(tools_.memory.free(p, after));
  return tools_.facts.rules.keeps_swap_buffers ? swapper_.release_buffer(p) : Status{};
}

Status ParameterMover::wait_for_gathers(ModuleId module) {
  if (needs_.of(module).empty()) return {};
  const Cause why = cause(tools_.operations.unit_of(module), Reason::needed);
  TESSERA_TRY(tools_.operations.wait_stream(tools_.facts.compute, tools_.facts.all_gather, why));
  return read_own(module);
}

Status ParameterMover::wait_for_gathers(ModuleId module, std::span<const EventId> arrived) {
  if (!arrived.empty()) {
    const Cause why = cause(tools_.operations.unit_of(module), Reason::needed);
    TESSERA_TRY(tools_.operations.submit(tools_.facts.compute, why, Wait{}, arrived).status());
  }
  return read_own(module);
}

// What a container does with its own parameters is no entry of the forward list: it costs nothing
// here, but is a use.
Status ParameterMover::read_own(ModuleId module) {
  const auto& needed = needs_.of(module);
  if (needed.empty() || tools_.facts.model.module(module).children.empty()) return {};
  std::vector<View> reads;
  for (ParameterId id : needed) {
    TESSERA_ASSIGN(const View own, view(id));
    reads.push_back(own);
  }
  const Cause why = cause(tools_.operations.unit_of(module), Reason::needed);
  return tools_.operations.submit(tools_.facts.compute, why, declare_read(std::move(reads)))
      .status();
}

// strict: what is there for another module's sake, or was kept, may be gone the next time.
Result<View> ParameterMover::view(ParameterId id) const {
  const OnDemandParameter& p = tools_.parameters[id];
  const bool asked_for = tools_.facts.rules.reads_whatever_is_there || !p.active.empty();
  if (p.copy.available() && asked_for) {
    return View::whole(p.copy.buffer(), tools_.facts.param_dtype(), p.numel);
  }
  const Model& model = tools_.facts.model;
  return Status(
      Code::invalid_argument,
      fmt::format("parameter {} is used while it is partitioned: call {} for module {} "
                  "first",
                  model.parameter(id).name, in_backward() ? "pre_backward" : "pre_forward",
                  model.module(model.parameter(id).module).path));
}

}  // namespace tessera
