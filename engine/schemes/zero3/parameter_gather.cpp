// SPDX-License-Identifier: Apache-2.0
// Gathering parameters (deepspeed partition_parameters.py: all_gather_coalesced, AllGatherHandle).
#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

View Zero3Engine::partition_of(const OnDemandParameter& p) const {
  return View::whole(p.cast.valid() ? p.cast : p.held.value, param_dtype(), p.partition);
}

// Rank r's part of a gathered buffer, from `offset` in a slot of `slot` elements.
View Zero3Engine::own_slot(const View& full, Numel offset, Numel partition, Numel slot) const {
  View own = View::shard(full.buffer, full.dtype, slot, ranks_);
  own.first = offset;
  own.numel = partition;
  return own;
}

Result<EventId> Zero3Engine::submit_by_route(StreamId stream, const Cause& why,
                                             CommunicatorId index_in,
                                             const std::vector<RoutedBlocks>& pieces) {
  EventId done;
  for (Copy& copy : copies_by_route(index_in, pieces)) {
    Cause cause = why;
    if (copy.route != CopyRoute::on_device) cause.reason = Reason::offload;
    TESSERA_ASSIGN(done, submit(stream, cause, std::move(copy)));
  }
  return done;
}

// What is on NVMe comes one by one, each as soon as it was read.
Result<EventId> Zero3Engine::bring(StreamId stream, const Cause& why, CommunicatorId index_in,
                                   const std::vector<Part>& parts) {
  std::vector<RoutedBlocks> pieces;
  for (const Part& part : parts) {
    if (part.home == Memory::nvme) continue;
    pieces.push_back(
        {*route_between(part.home, Memory::device), {.from = part.from, .to = part.to}});
  }
  TESSERA_ASSIGN(EventId done, submit_by_route(stream, why, index_in, pieces));
  for (const Part& part : parts) {
    if (part.home != Memory::nvme) continue;
    TESSERA_ASSIGN(done, swapper_.bring(at(part.parameter), part.to, index_in, stream, why));
  }
  const bool moved = std::any_of(parts.begin(), parts.end(),
                                 [](const Part& part) { return part.home != Memory::device; });
  if (moved && facts_.rules.host_waits_for_copies) TESSERA_TRY(runtime_.wait(done));
  return done;
}

Status Zero3Engine::ensure_on_host(const std::vector<ParameterId>& parameters) {
  if (!swapper_.exists() || !facts_.rules.host_waits_for_reads) return {};
  std::vector<OnDemandParameter*> all;
  for (ParameterId id : parameters) all.push_back(&at(id));
  return swapper_.ensure_availability(all);
}

Status Zero3Engine::read_ahead(const std::vector<ParameterId>& next) {
  std::vector<OnDemandParameter*> all;
  for (ParameterId id : next) all.push_back(&at(id));
  if (!facts_.rules.host_waits_for_reads) return swapper_.read_ahead(all);
  return all.empty() ? Status{} : swapper_.swap_in(all, true);
}

// What is offloaded comes straight to its place in the gathered copy.
Result<View> Zero3Engine::gather_input(const OnDemandParameter& p, const View& full,
                                       StreamId stream, const Cause& why) {
  if (p.home == Memory::device) return partition_of(p);
  const View own = own_slot(full, Numel{0}, p.partition, p.partition);
  TESSERA_TRY(bring(stream, why, world_, {{p.id, partition_of(p), own, p.home}}).status());
  return own;
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
  if (!gather->secondary) TESSERA_TRY(ensure_on_host(gather->parameters));
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
  std::vector<Part> alone;
  for (ParameterId id : gather.parameters) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(allocate_full(p, all_gather_, why));
    alone.push_back({id, partition_of(p), View::whole(p.full, param_dtype(), p.partition), p.home});
  }
  if (ranks_ == 1) {
    TESSERA_ASSIGN(gather.gathered, bring(all_gather_, why, {}, alone));
    return {};
  }
  const OnDemandParameter& p = at(gather.parameters.front());
  const View full = View::whole(p.full, param_dtype(), p.partition * ranks_);
  View input = source_of(p, gather);
  if (!gather.secondary) {
    TESSERA_ASSIGN(input, gather_input(p, full, all_gather_, why));
  }
  TESSERA_ASSIGN(gather.gathered, gather_into(gather, input, full, why));
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
  const View flat = View::whole(gather.flat, param_dtype(), all);
  const View own = View::shard(gather.flat, param_dtype(), gather.partition, gather.parts);
  std::vector<Part> parts;
  Numel offset{};
  for (ParameterId id : gather.parameters) {
    const OnDemandParameter& p = at(id);
    View slot = own;
    slot.first = offset;
    slot.numel = part_of(p, gather);
    const Memory home = gather.secondary ? Memory::device : p.home;
    parts.push_back({id, source_of(p, gather), slot, home});
    offset += slot.numel;
  }
  TESSERA_TRY(bring(all_gather_, cause(why.unit, Reason::copy_in), gather.group, parts).status());
  TESSERA_ASSIGN(gather.gathered, gather_into(gather, own, flat, why));
  return {};
}

// The first of the parameters that is waited for completes all.
Status Zero3Engine::finish(Gather& gather) {
  if (gather.complete) return {};
  gather.complete = true;
  TESSERA_TRY(decode(gather));
  const std::string_view unit = at(gather.parameters.front()).held.unit;
  if (gather.flat.valid() || facts_.rules.waits_where_gathers_run) {
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
  TESSERA_TRY(ensure_on_host(missing));
  for (ParameterId id : missing) {
    OnDemandParameter& p = at(id);
    TESSERA_TRY(allocate_full(p, compute_, why));
    const View full = View::whole(p.full, param_dtype(), p.partition * ranks_);
    if (looks.reads.empty()) {
      TESSERA_TRY(wait_stream(nccl_, compute_, cause("root", Reason::order)));
    }
    const Cause own = cause(p.held.unit, reason);
    if (ranks_ == 1) {
      TESSERA_TRY(bring(nccl_, own, {}, {{p.id, partition_of(p), full, p.home}}).status());
    } else {
      TESSERA_ASSIGN(const View input, gather_input(p, full, nccl_, own));
      TESSERA_TRY(submit(nccl_, own, AllGather{world_, input, full}).status());
    }
    looks.reads.push_back(full);
    p.state = State::available;
  }
  TESSERA_TRY(wait_stream(compute_, nccl_, why));
  TESSERA_ASSIGN(const EventId seen, submit(compute_, why, std::move(looks)));
  return runtime_.wait(seen);
}

}  // namespace tessera
