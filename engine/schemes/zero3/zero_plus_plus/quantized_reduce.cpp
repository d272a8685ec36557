// SPDX-License-Identifier: Apache-2.0
// Reducing a packed bucket to parts: a reduce_scatter, or two all_to_all of codes of 4 bit, inside
// of nodes and between them (ZeRO++ qgZ; deepspeed coalesced_collectives.py:
// all_to_all_quant_reduce).
#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

// A part has to hold whole bytes of codes.
bool Zero3Engine::quantizes(const OnDemandParameter& p) const {
  return node_.valid() && model_.parameter(p.id).shape.size() > 1 &&
         p.numel.value % (2 * ranks_) == 0;
}

Result<EventId> Zero3Engine::reduce_scatter(const std::vector<OnDemandParameter*>& bucket,
                                            const View& packed, const View& scattered,
                                            const Cause& why) {
  if (quantizes(*bucket.front())) return reduce_in_two_hops(packed, scattered, why);
  TESSERA_TRY(wait_stream(nccl_, reduce_, cause(why.unit, Reason::order)));
  TESSERA_ASSIGN(const EventId reduced,
                 submit(nccl_, why, ReduceScatter{world_, packed, scattered, Reduction::sum}));
  if (!keeps_later(packed)) {
    TESSERA_TRY(wait_event(reduce_, reduced, cause(why.unit, Reason::order)));
  }
  return reduced;
}

Result<Zero3Engine::Codes> Zero3Engine::allocate_codes(const BlockQuantizer& format,
                                                       std::int64_t rows, StreamId stream,
                                                       const Cause& why) {
  const Numel codes = format.codes() * rows;
  const Numel scales = format.scales() * rows;
  const MemoryClass use =
      stream == reduce_ ? MemoryClass::reduce_buffers : MemoryClass::all_gather_buffers;
  TESSERA_ASSIGN(const BufferId c,
                 allocate("codes", bytes_of(codes, DType::uint8), use, stream, why));
  TESSERA_ASSIGN(const BufferId s,
                 allocate("scales", bytes_of(scales, DType::float32), use, stream, why));
  return Codes{View::whole(c, DType::uint8, codes), View::whole(s, DType::float32, scales)};
}

Status Zero3Engine::release_codes(const Codes& codes, EventId after) {
  for (BufferId buffer : {codes.codes.buffer, codes.scales.buffer}) {
    TESSERA_TRY(release(buffer, after));
  }
  return {};
}

// Takes what is sent.
Result<Zero3Engine::Codes> Zero3Engine::exchange(const Codes& sent, CommunicatorId group,
                                                 const BlockQuantizer& format, std::int64_t rows,
                                                 const Cause& why) {
  TESSERA_ASSIGN(const Codes got, allocate_codes(format, rows, reduce_, why));
  TESSERA_TRY(wait_stream(nccl_, reduce_, cause(why.unit, Reason::order)));
  TESSERA_TRY(submit(nccl_, why, AllToAll{group, sent.codes, got.codes}).status());
  TESSERA_ASSIGN(const EventId arrived,
                 submit(nccl_, why, AllToAll{group, sent.scales, got.scales}));
  TESSERA_TRY(wait_event(reduce_, arrived, cause(why.unit, Reason::order)));
  TESSERA_TRY(release_codes(sent, arrived));
  return got;
}

// Rank (node k, place j) has to get slice k * places + j. So the first hop sends to place j what
// belongs to place j of any node, node by node; the second hop sends to node k what belongs to it.
Result<EventId> Zero3Engine::reduce_in_two_hops(const View& packed, const View& scattered,
                                                const Cause& why) {
  const BlockQuantizer format{.bits = 4, .row = scattered.numel};
  const std::int64_t places = options_.plus_plus.ranks_per_node;
  const std::int64_t nodes = ranks_ / places;
  const Cause pack = cause(why.unit, Reason::copy_in);
  std::vector<std::int64_t> by_place;
  for (std::int64_t r = 0; r < ranks_; ++r) by_place.push_back(r % places * nodes + r / places);
  TESSERA_ASSIGN(const Codes first, allocate_codes(format, ranks_, reduce_, pack));
  TESSERA_TRY(
      submit(reduce_, pack, format.quantize(packed, first.codes, first.scales, by_place)).status());
  TESSERA_ASSIGN(const Codes inside, exchange(first, node_, format, ranks_, why));

  const Numel half = scattered.numel * nodes;
  TESSERA_ASSIGN(BufferId sums, allocate("node_sums", bytes_of(half, DType::float32),
                                         MemoryClass::reduce_buffers, reduce_, pack));
  const View summed = View::whole(sums, DType::float32, half);
  TESSERA_ASSIGN(const EventId added,
                 submit(reduce_, cause(why.unit, Reason::accumulate),
                        format.dequantize(inside.codes, inside.scales, summed)));
  TESSERA_TRY(release_codes(inside, added));
  std::vector<std::int64_t> by_node;
  for (std::int64_t k = 0; k < nodes; ++k) by_node.push_back(k);
  TESSERA_ASSIGN(const Codes second, allocate_codes(format, nodes, reduce_, pack));
  TESSERA_ASSIGN(
      const EventId packed_again,
      submit(reduce_, pack, format.quantize(summed, second.codes, second.scales, by_node)));
  TESSERA_TRY(release(sums, packed_again));
  TESSERA_ASSIGN(const Codes between, exchange(second, across_, format, nodes, why));
  TESSERA_ASSIGN(const EventId done,
                 submit(reduce_, cause(why.unit, Reason::accumulate),
                        format.dequantize(between.codes, between.scales, scattered)));
  TESSERA_TRY(release_codes(between, done));
  return done;
}

}  // namespace tessera
