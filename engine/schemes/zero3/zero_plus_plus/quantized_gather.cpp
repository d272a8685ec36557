// SPDX-License-Identifier: Apache-2.0
// One all_gather, perhaps of codes of 8 bit (ZeRO++ qwZ; deepspeed partition_parameters.py:
// CUDAQuantizer, QuantizationInfo).
#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

Result<EventId> Zero3Engine::gather_into(Gather& gather, const View& own, const View& full,
                                         const Cause& why) {
  if (options_.plus_plus.quantized_weights) return gather_codes(gather, own, full, why);
  TESSERA_TRY(wait_stream(nccl_, all_gather_, cause(why.unit, Reason::order)));
  return submit(nccl_, why, AllGather{gather.group, own, full});
}

// All ranks see the rounded values, the one that holds the exact ones, too.
Result<EventId> Zero3Engine::gather_codes(Gather& gather, const View& own, const View& full,
                                          const Cause& why) {
  const BlockQuantizer format{.bits = 8, .row = own.numel};
  const Cause pack = cause(why.unit, Reason::copy_in);
  TESSERA_ASSIGN(const Codes all, allocate_codes(format, gather.parts, all_gather_, pack));
  const View codes = View::shard(all.codes.buffer, DType::uint8, format.codes(), gather.parts);
  const View scales = View::shard(all.scales.buffer, DType::float32, format.scales(), gather.parts);
  Compute quantize = format.quantize(own, codes, scales, {0});
  quantize.index_in = gather.group;
  TESSERA_TRY(submit(all_gather_, pack, std::move(quantize)).status());
  TESSERA_TRY(wait_stream(nccl_, all_gather_, cause(why.unit, Reason::order)));
  TESSERA_TRY(submit(nccl_, why, AllGather{gather.group, codes, all.codes}).status());
  TESSERA_ASSIGN(const EventId arrived,
                 submit(nccl_, why, AllGather{gather.group, scales, all.scales}));
  gather.codes = all.codes;
  gather.scales = all.scales;
  gather.decoded = full;
  return arrived;
}

// When somebody waits, so that the codes of later gathers need not wait for it.
Status Zero3Engine::decode(Gather& gather) {
  if (!gather.codes.buffer.valid()) return {};
  const std::string_view unit = at(gather.parameters.front()).held.unit;
  const BlockQuantizer format{.bits = 8, .row = Numel{gather.decoded.numel.value / gather.parts}};
  TESSERA_TRY(wait_event(all_gather_, gather.gathered, cause(unit, Reason::needed)));
  TESSERA_ASSIGN(gather.gathered,
                 submit(all_gather_, cause(unit, Reason::copy_out),
                        format.dequantize(gather.codes, gather.scales, gather.decoded)));
  return release_codes({gather.codes, gather.scales}, gather.gathered);
}

}  // namespace tessera
