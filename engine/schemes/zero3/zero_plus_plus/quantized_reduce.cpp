// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero_plus_plus/quantized_reduce.h"

#include <vector>

#include "tessera/assert.h"

namespace tessera {

// A part has to hold whole bytes of codes.
bool QuantizedReduce::takes(const OnDemandParameter& p) const {
  return facts_.node.valid() && facts_.model.parameter(p.id).shape.size() > 1 &&
         p.numel.value % (2 * facts_.ranks) == 0;
}

Result<Codes> QuantizedReduce::allocate(const BlockQuantizer& format, std::int64_t rows,
                                        const Cause& why) {
  return allocate_codes(operations_, format, rows, MemoryClass::reduce_buffers, facts_.reduce, why);
}

// Takes what is sent.
Result<Codes> QuantizedReduce::exchange(const Codes& sent, CommunicatorId group,
                                        const BlockQuantizer& format, std::int64_t rows,
                                        const Cause& why) {
  TESSERA_ASSIGN(const Codes got, allocate(format, rows, why));
  const Cause order = operations_.cause(why.unit, Reason::order);
  TESSERA_TRY(operations_.wait_stream(facts_.nccl, facts_.reduce, order));
  TESSERA_TRY(
      operations_.submit(facts_.nccl, why, AllToAll{group, sent.codes, got.codes}).status());
  TESSERA_ASSIGN(const EventId arrived,
                 operations_.submit(facts_.nccl, why, AllToAll{group, sent.scales, got.scales}));
  TESSERA_TRY(operations_.wait_event(facts_.reduce, arrived, order));
  TESSERA_TRY(release_codes(operations_, sent, arrived));
  return got;
}

// Rank (node k, place j) has to get slice k * places + j. So the first hop sends to place j what
// belongs to place j of any node, node by node; the second hop sends to node k what belongs to it.
Result<Codes> QuantizedReduce::add_inside(const View& packed, const BlockQuantizer& format,
                                          const Cause& why) {
  const std::int64_t places = facts_.options.plus_plus.ranks_per_node;
  const std::int64_t nodes = facts_.ranks / places;
  TESSERA_ASSERT(places * nodes == facts_.ranks, "nodes are full");
  TESSERA_ASSERT(packed.numel == format.row * facts_.ranks, "a row for every rank");
  const Cause pack = operations_.cause(why.unit, Reason::copy_in);
  std::vector<std::int64_t> by_place;
  for (std::int64_t r = 0; r < facts_.ranks; ++r) {
    by_place.push_back(r % places * nodes + r / places);
  }
  TESSERA_ASSIGN(const Codes first, allocate(format, facts_.ranks, pack));
  TESSERA_TRY(
      operations_
          .submit(facts_.reduce, pack, format.quantize(packed, first.codes, first.scales, by_place))
          .status());
  return exchange(first, facts_.node, format, facts_.ranks, why);
}

Result<EventId> QuantizedReduce::reduce(const View& packed, const View& scattered,
                                        const Cause& why) {
  const BlockQuantizer format{.bits = 4, .row = scattered.numel};
  const std::int64_t nodes = facts_.ranks / facts_.options.plus_plus.ranks_per_node;
  const Cause pack = operations_.cause(why.unit, Reason::copy_in);
  const Cause sum = operations_.cause(why.unit, Reason::accumulate);
  // Sums of a node are float32 between the two hops: they are rounded to codes once more, and only
  // for the second one.
  TESSERA_ASSIGN(const Codes inside, add_inside(packed, format, why));

  const Numel half = scattered.numel * nodes;
  TESSERA_ASSIGN(BufferId sums,
                 operations_.allocate("node_sums", bytes_of(half, DType::float32),
                                      MemoryClass::reduce_buffers, facts_.reduce, pack));
  const View summed = View::whole(sums, DType::float32, half);
  TESSERA_ASSIGN(const EventId added,
                 operations_.submit(facts_.reduce, sum,
                                    format.dequantize(inside.codes, inside.scales, summed)));
  TESSERA_TRY(release_codes(operations_, inside, added));
  std::vector<std::int64_t> by_node;
  for (std::int64_t k = 0; k < nodes; ++k) by_node.push_back(k);
  TESSERA_ASSIGN(const Codes second, allocate(format, nodes, pack));
  TESSERA_ASSIGN(const EventId packed_again,
                 operations_.submit(facts_.reduce, pack,
                                    format.quantize(summed, second.codes, second.scales, by_node)));
  TESSERA_TRY(operations_.release(sums, packed_again));
  TESSERA_ASSIGN(const Codes between, exchange(second, facts_.across, format, nodes, why));
  TESSERA_ASSIGN(const EventId done,
                 operations_.submit(facts_.reduce, sum,
                                    format.dequantize(between.codes, between.scales, scattered)));
  TESSERA_TRY(release_codes(operations_, between, done));
  return done;
}

}  // namespace tessera
