// SPDX-License-Identifier: Apache-2.0
#include "engine/numbers/arithmetic.h"

namespace tessera {
namespace {

double bytes(const View& view) {
  return static_cast<double>(bytes_of(view.numel, view.dtype).value);
}

}  // namespace

Compute add(const View& from, const View& into) {
  Compute work;
  work.reads = {from, into};
  work.writes = {into};
  work.cost.elementwise_bytes = bytes(from) + 2 * bytes(into);
  work.body = [a = from.dtype, b = into.dtype](const BodyContext& context) {
    context.kernels().add({context.read(0), a}, {context.write(0), b});
  };
  return work;
}

Compute multiply(const View& from, const View& to, float factor) {
  Compute work;
  work.reads = {from};
  work.writes = {to};
  work.cost.elementwise_bytes = bytes(from) + bytes(to);
  work.body = [a = from.dtype, b = to.dtype, factor](const BodyContext& context) {
    context.kernels().scale({context.read(0), a}, {context.write(0), b}, factor);
  };
  return work;
}

Compute divide(const View& view, float divisor) {
  Compute work;
  work.reads = {view};
  work.writes = {view};
  work.cost.elementwise_bytes = 2 * bytes(view);
  work.body = [dtype = view.dtype, divisor](const BodyContext& context) {
    context.kernels().divide({context.write(0), dtype}, divisor);
  };
  return work;
}

Compute declare_read(std::vector<View> reads) {
  return {.cost = {.kernels = 0}, .reads = std::move(reads), .writes = {}, .body = {}};
}

}  // namespace tessera
