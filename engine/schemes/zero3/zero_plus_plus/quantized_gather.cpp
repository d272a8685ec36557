// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero_plus_plus/quantized_gather.h"

namespace tessera {

// All ranks see the rounded values, the one that holds the exact ones, too: otherwise ranks would
// compute with different parameters.
Result<EventId> QuantizedGather::begin(Operations& operations, const Zero3Facts& facts,
                                       CommunicatorId group, Index parts, const View& own,
                                       const View& full, const Cause& why) {
  TESSERA_ASSERT(!began(), "a gather begins once");
  TESSERA_ASSERT(full.numel == own.numel * parts, "ranks have equal parts");
  const BlockQuantizer format{.bits = 8, .row = own.numel};
  const Cause pack = operations.cause(why.unit, Reason::copy_in);
  TESSERA_ASSIGN(const Codes all,
                 allocate_codes(operations, format, parts, MemoryClass::all_gather_buffers,
                                facts.all_gather, pack));
  const View codes = View::shard(all.codes.buffer, DType::uint8, format.codes(), parts);
  const View scales = View::shard(all.scales.buffer, DType::float32, format.scales(), parts);
  Compute quantize = format.quantize(own, codes, scales, {0});
  quantize.index_in = group;
  TESSERA_TRY(operations.submit(facts.all_gather, pack, std::move(quantize)).status());
  TESSERA_TRY(operations.wait_stream(facts.nccl, facts.all_gather,
                                     operations.cause(why.unit, Reason::order)));
  TESSERA_TRY(operations.submit(facts.nccl, why, AllGather{group, codes, all.codes}).status());
  TESSERA_ASSIGN(const EventId arrived,
                 operations.submit(facts.nccl, why, AllGather{group, scales, all.scales}));
  arrived_ = all;
  full_ = full;
  parts_ = parts;
  return arrived;
}

// When somebody waits, so that the codes of later gathers need not wait for it.
Result<EventId> QuantizedGather::decode(Operations& operations, const Zero3Facts& facts,
                                        EventId gathered, std::string_view unit) const {
  TESSERA_ASSERT(began(), "codes are decoded after they were gathered");
  const BlockQuantizer format{.bits = 8, .row = Numel{full_.numel.value / parts_}};
  TESSERA_TRY(
      operations.wait_event(facts.all_gather, gathered, operations.cause(unit, Reason::needed)));
  TESSERA_ASSIGN(const EventId decoded,
                 operations.submit(facts.all_gather, operations.cause(unit, Reason::copy_out),
                                   format.dequantize(arrived_.codes, arrived_.scales, full_)));
  TESSERA_TRY(release_codes(operations, arrived_, decoded));
  return decoded;
}

}  // namespace tessera
