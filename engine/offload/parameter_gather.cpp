// SPDX-License-Identifier: Apache-2.0
// Gathering parameters (deepspeed partition_parameters.py: all_gather_coalesced, AllGatherHandle).
#include <fmt/format.h>

#include <algorithm>

#include "engine/offload/zero3_engine.h"

namespace tessera {

View Zero3Engine::partition_of(const OnDemandParameter& p) const {
  return View::whole(mixed() ? p.cast : p.held.value, param_dtype(), p.partition);
}

// One collective for all of them, in the order of ids.
Status Zero3Engine::gather(std::vector<ParameterId> missing, Reason reason) {
  if (missing.empty()) return {};
  std::sort(missing.begin(), missing.end());
  auto gather = std::make_shared<Gather>();
  gather->number = ++gathers_;
  gather->parameters = std::move(missing);
  choose_source(*gather);
  for (ParameterId id : gather->parameters) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(note(p, {Mark::Kind::in_flight, gather->number}, reason).status());
    p.state = State::in_flight;
    gather->partition += part_of(p, *gather);
    p.flying = gather;
  }
  const Cause why = cause(at(gather->parameters.front()).held.unit, reason);
  if (!freed_.empty()) {
    // DeepSpeed frees with record_stream: memory is used again when the device happens to be done.
    TESSERA_TRY(submit(all_gather_, cause(why.unit, Reason::order), Wait{}, freed_).status());
    freed_.clear();
  }
  return gather->parameters.size() > 1 && ranks_ > 1 ? begin_coalesced(*gather, why)
                                                     : begin(*gather, why);
}

// torch.cat makes the unpadded size; the padding stays here, so that a copy of it is simple.
Status Zero3Engine::allocate_full(OnDemandParameter& p, StreamId stream, const Cause& why) {
  TESSERA_ASSIGN(p.full, allocate(fmt::format("{}.full", name(p)),
                                  bytes_of(p.partition * ranks_, param_dtype()),
                                  MemoryClass::unsharded_parameters, stream, why));
  live_ += gathered_bytes(p.id);
  return {};
}

Bytes Zero3Engine::flat_bytes(const Gather& gather) const {
  return bytes_of(gather.partition * gather.parts, param_dtype());
}

// Straight into the parameter's buffer; of a single rank there is nobody to gather from.
Status Zero3Engine::begin(Gather& gather, const Cause& why) {
  Copy alone;
  for (ParameterId id : gather.parameters) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(allocate_full(p, all_gather_, why));
    alone.pieces.push_back(
        {.from = partition_of(p), .to = View::whole(p.full, param_dtype(), p.partition)});
  }
  if (ranks_ == 1) {
    TESSERA_ASSIGN(gather.gathered, submit(all_gather_, why, std::move(alone)));
    return {};
  }
  const OnDemandParameter& p = at(gather.parameters.front());
  const View full = View::whole(p.full, param_dtype(), p.partition * ranks_);
  TESSERA_ASSIGN(gather.gathered, gather_into(gather, source_of(p, gather), full, why));
  return {};
}

// Rank r's slot of the flat buffer is all its partitions, one behind another.
Status Zero3Engine::begin_coalesced(Gather& gather, const Cause& why) {
  const Numel all = gather.partition * gather.parts;
  TESSERA_ASSIGN(gather.flat,
                 allocate(fmt::format("gather_{}.flat", gather.number), flat_bytes(gather),
                          MemoryClass::all_gather_buffers, all_gather_, why));
  live_ += flat_bytes(gather);
  promised_ += flat_bytes(gather);
  Copy copy{.index_in = gather.group, .pieces = {}};
  Numel offset{};
  for (ParameterId id : gather.parameters) {
    const OnDemandParameter& p = at(id);
    View slot = View::shard(gather.flat, param_dtype(), gather.partition, gather.parts);
    slot.first = offset;
    slot.numel = part_of(p, gather);
    copy.pieces.push_back({.from = source_of(p, gather), .to = slot});
    offset += slot.numel;
  }
  TESSERA_TRY(submit(all_gather_, cause(why.unit, Reason::copy_in), std::move(copy)).status());
  const View own = View::shard(gather.flat, param_dtype(), gather.partition, gather.parts);
  const View flat = View::whole(gather.flat, param_dtype(), all);
  TESSERA_ASSIGN(gather.gathered, gather_into(gather, own, flat, why));
  return {};
}

// The first of the parameters that is waited for completes all.
Status Zero3Engine::finish(Gather& gather) {
  if (gather.complete) return {};
  gather.complete = true;
  const std::string_view unit = at(gather.parameters.front()).held.unit;
  if (gather.flat.valid() || options_.policy == Zero3Policy::compatible) {
    TESSERA_TRY(wait_event(all_gather_, gather.gathered, cause(unit, Reason::needed)));
  }
  gather.done = gather.gathered;
  if (gather.flat.valid()) TESSERA_TRY(split(gather));
  for (ParameterId id : gather.parameters) at(id).state = State::available;
  return keep_secondary(gather);
}

Status Zero3Engine::split(Gather& gather) {
  const Cause why = cause(at(gather.parameters.front()).held.unit, Reason::copy_out);
  Copy copy;
  Numel offset{};
  for (ParameterId id : gather.parameters) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(allocate_full(p, all_gather_, why));
    const Numel part = part_of(p, gather);
    View from = View::part(gather.flat, param_dtype(), offset, part);
    from.end = gather.partition * gather.parts;
    View to = View::part(p.full, param_dtype(), Numel{0}, part);
    to.end = p.partition * ranks_;
    copy.pieces.push_back({.from = from,
                           .to = to,
                           .count = gather.parts,
                           .from_pitch = gather.partition,
                           .to_pitch = part});
    offset += part;
  }
  TESSERA_ASSIGN(gather.done, submit(all_gather_, why, std::move(copy)));
  promised_ -= flat_bytes(gather);
  live_ -= flat_bytes(gather);
  return release(gather.flat, gather.done);
}

Status Zero3Engine::gather_persistent() {
  std::vector<ParameterId> persistent;
  for (const OnDemandParameter& p : parameters_) {
    if (p.persistent) persistent.push_back(p.id);
  }
  return gather_now(persistent, Reason::forward_prefetch);
}

// One by one, and the host waits for all. Not counted as available, as in DeepSpeed.
Status Zero3Engine::gather_now(const std::vector<ParameterId>& missing, Reason reason) {
  if (missing.empty()) return {};
  Compute looks{.cost = {.kernels = 0}, .reads = {}, .writes = {}, .body = {}};
  const Cause why = cause("root", reason);
  for (ParameterId id : missing) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(allocate_full(p, compute_, why));
    const View full = View::whole(p.full, param_dtype(), p.partition * ranks_);
    if (looks.reads.empty()) {
      TESSERA_TRY(wait_stream(nccl_, compute_, cause("root", Reason::order)));
    }
    decltype(Op::what) what = AllGather{world_, partition_of(p), full};
    if (ranks_ == 1) what = Copy{.pieces = {{.from = partition_of(p), .to = full}}};
    TESSERA_TRY(submit(nccl_, cause(p.held.unit, reason), std::move(what)).status());
    looks.reads.push_back(full);
    p.state = State::available;
  }
  TESSERA_TRY(wait_stream(compute_, nccl_, why));
  TESSERA_ASSIGN(const EventId seen, submit(compute_, why, std::move(looks)));
  return runtime_.wait(seen);
}

Status Zero3Engine::cast_partitions(const std::vector<Held*>& changed) {
  if (!mixed() || changed.empty()) return {};
  Copy copy;
  for (const Held* held : changed) {
    const OnDemandParameter& p = at(held->map.segments().front().parameter);
    copy.pieces.push_back(
        {.from = View::whole(held->value, held->dtype, p.partition), .to = partition_of(p)});
  }
  return submit(compute_, cause("root", Reason::copy_out), std::move(copy)).status();
}

}  // namespace tessera
