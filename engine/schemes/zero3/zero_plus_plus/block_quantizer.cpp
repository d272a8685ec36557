// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero_plus_plus/block_quantizer.h"

namespace tessera {
namespace {

double bytes(const View& view) {
  return static_cast<double>(bytes_of(view.numel, view.dtype).value);
}

}  // namespace

Compute BlockQuantizer::quantize(const View& from, const View& codes_out, const View& scales_out,
                                 const std::vector<std::int64_t>& places) const {
  Compute work;
  work.reads = {from};
  work.writes = {codes_out, scales_out};
  work.cost.elementwise_bytes = 2 * bytes(from) + bytes(codes_out) + bytes(scales_out);
  work.body = [format = format(), places, dtype = from.dtype](const BodyContext& context) {
    context.kernels().quantize(format, {context.read(0), dtype}, places, context.write(0),
                               {context.write(1), DType::float32});
  };
  return work;
}

Compute BlockQuantizer::dequantize(const View& codes_in, const View& scales_in,
                                   const View& to) const {
  Compute work;
  work.reads = {codes_in, scales_in};
  work.writes = {to};
  work.cost.elementwise_bytes = bytes(codes_in) + bytes(scales_in) + bytes(to);
  work.body = [format = format(), dtype = to.dtype](const BodyContext& context) {
    context.kernels().dequantize(format, context.read(0), {context.read(1), DType::float32},
                                 {context.write(0), dtype});
  };
  return work;
}

BlockFormat BlockQuantizer::format() const {
  return {bits, static_cast<std::size_t>(row.value), static_cast<std::size_t>(block_max)};
}

}  // namespace tessera
