// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/gather/gather.h"

#include <algorithm>
#include <utility>

#include "tessera/assert.h"

namespace tessera {

Gather::Gather(const GatherTools& tools, std::int32_t number, std::vector<ParameterId> parameters)
    : tools_(tools),
      number_(number),
      parameters_(std::move(parameters)),
      secondary_(tools_.secondary.serve(parameters_)),
      group_(secondary_ ? tools_.facts.secondary : tools_.facts.world),
      parts_(secondary_ ? tools_.secondary.group() : tools_.facts.ranks) {
  TESSERA_ASSERT(!parameters_.empty() && std::is_sorted(parameters_.begin(), parameters_.end()),
                 "all ranks gather the same parameters in the same order");
  for (ParameterId id : parameters_) partition_ += part_of(tools_.parameters[id]);
}

Status Gather::begin(const Cause& why) {
  TESSERA_ASSERT(!gathered_.valid() && !complete_, "a gather begins once");
  return parameters_.size() > 1 && tools_.facts.ranks > 1 ? begin_coalesced(why) : begin_alone(why);
}

// Straight into the parameter's memory; of a single rank there is nobody to gather from, and any
// number of partitions are copied.
Status Gather::begin_alone(const Cause& why) {
  const StreamId stream = tools_.facts.all_gather;
  std::vector<GatherPart> alone;
  for (ParameterId id : parameters_) {
    OnDemandParameter& p = tools_.parameters[id];
    TESSERA_TRY(tools_.memory.allocate(p, stream, why));
    const View to = View::whole(p.copy.buffer(), dtype(), p.partition);
    alone.push_back({id, tools_.partitions.of(p), to, p.home});
  }
  if (tools_.facts.ranks == 1) {
    TESSERA_ASSIGN(gathered_, tools_.partitions.bring(stream, why, {}, alone));
    return {};
  }
  TESSERA_ASSERT(parameters_.size() == 1, "several are gathered into one buffer and split");
  const OnDemandParameter& p = tools_.parameters[parameters_.front()];
  const View full = tools_.memory.view(p);
  View input = source_of(p);
  if (!secondary_) {
    TESSERA_ASSIGN(input, tools_.partitions.gather_input(p, full, stream, why));
  }
  TESSERA_ASSIGN(gathered_, collect(input, full, why));
  return {};
}

// Rank r's slot of the flat buffer is all its partitions, one behind another.
Status Gather::begin_coalesced(const Cause& why) {
  const Numel all = partition_ * parts_;
  TESSERA_ASSIGN(flat_, tools_.memory.allocate_flat(number_, all, why));
  const View flat = View::whole(flat_, dtype(), all);
  const View own = View::shard(flat_, dtype(), partition_, parts_);
  std::vector<GatherPart> parts;
  Numel offset{};
  for (ParameterId id : parameters_) {
    const OnDemandParameter& p = tools_.parameters[id];
    View slot = own;
    slot.first = offset;
    slot.numel = part_of(p);
    parts.push_back({id, source_of(p), slot, secondary_ ? Memory::device : p.home});
    offset += slot.numel;
  }
  TESSERA_ASSERT(offset == partition_, "a rank's parts fill its slot of the flat buffer");
  const Cause pack = tools_.operations.cause(why.unit, Reason::copy_in);
  TESSERA_TRY(tools_.partitions.bring(tools_.facts.all_gather, pack, group_, parts).status());
  TESSERA_ASSIGN(gathered_, collect(own, flat, why));
  return {};
}

// The collective's stream follows the stream of gathers, which has allocated and filled its
// buffers.
Result<EventId> Gather::collect(const View& own, const View& full, const Cause& why) {
  const Zero3Facts& facts = tools_.facts;
  if (facts.options.plus_plus.quantized_weights) {
    return quantized_.begin(tools_.operations, facts, group_, parts_, own, full, why);
  }
  TESSERA_TRY(tools_.operations.wait_stream(facts.nccl, facts.all_gather,
                                            tools_.operations.cause(why.unit, Reason::order)));
  return tools_.operations.submit(facts.nccl, why, AllGather{group_, own, full});
}

// Decoding and splitting wait until here, because they take memory and the stream's time: what is
// gathered ahead should cost neither before it is used.
Status Gather::finish() {
  if (complete_) return {};
  TESSERA_ASSERT(gathered_.valid(), "only what began can end");
  // Before anything can fail: a gather that ended halfway is not ended again.
  complete_ = true;
  const Zero3Facts& facts = tools_.facts;
  if (quantized_.began()) {
    TESSERA_ASSIGN(gathered_, quantized_.decode(tools_.operations, facts, gathered_, unit()));
  }
  // The stream of gathers itself needs to wait only if it has something to split.
  if (flat_.valid() || facts.rules.waits_where_gathers_run) {
    TESSERA_TRY(tools_.operations.wait_event(facts.all_gather, gathered_,
                                             tools_.operations.cause(unit(), Reason::needed)));
  }
  done_ = gathered_;
  if (flat_.valid()) TESSERA_TRY(split());
  for (ParameterId id : parameters_) tools_.parameters[id].copy.land();
  // What came from secondary parts is there already, and backward's gathers bring no new values.
  if (secondary_ || !tools_.secondary.keep_now()) return {};
  TESSERA_ASSIGN(done_, tools_.secondary.keep(parameters_, gathered_));
  return {};
}

// One copy with a piece per parameter: part r of each lies in rank r's slot of the flat buffer.
Status Gather::split() {
  const Cause why = tools_.operations.cause(unit(), Reason::copy_out);
  const Numel all = partition_ * parts_;
  Copy copy;
  Numel offset{};
  for (ParameterId id : parameters_) {
    OnDemandParameter& p = tools_.parameters[id];
    TESSERA_TRY(tools_.memory.allocate(p, tools_.facts.all_gather, why));
    const Numel part = part_of(p);
    View from = View::part(flat_, dtype(), offset, part);
    from.end = all;
    View to = View::part(p.copy.buffer(), dtype(), Numel{0}, part);
    to.end = p.partition * tools_.facts.ranks;
    copy.pieces.push_back(
        {.from = from, .to = to, .count = parts_, .from_pitch = partition_, .to_pitch = part});
    offset += part;
  }
  TESSERA_ASSERT(offset == partition_, "the parts of a slot are those of the gathered parameters");
  TESSERA_ASSIGN(done_, tools_.operations.submit(tools_.facts.all_gather, why, std::move(copy)));
  return tools_.memory.release_flat(flat_, all, done_);
}

}  // namespace tessera
