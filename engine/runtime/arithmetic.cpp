// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/arithmetic.h"

#include "engine/runtime/number.h"

namespace tessera {
namespace {

double bytes(const View& view) {
  return static_cast<double>(bytes_of(view.numel, view.dtype).value);
}

std::size_t numel_of(std::span<const std::byte> data, DType dtype) {
  return data.size() / static_cast<std::size_t>(size_of(dtype).value);
}

}  // namespace

Compute add(const View& from, const View& into) {
  Compute work;
  work.reads = {from, into};
  work.writes = {into};
  work.cost.elementwise_bytes = bytes(from) + 2 * bytes(into);
  work.body = [a = from.dtype, b = into.dtype](const BodyContext& context) {
    const auto source = context.read(0);
    const auto target = context.write(0);
    for (std::size_t i = 0; i < numel_of(target, b); ++i) {
      store_number(target, b, i, load_number(target, b, i) + load_number(source, a, i));
    }
  };
  return work;
}

Compute multiply(const View& from, const View& to, float factor) {
  Compute work;
  work.reads = {from};
  work.writes = {to};
  work.cost.elementwise_bytes = bytes(from) + bytes(to);
  work.body = [a = from.dtype, b = to.dtype, factor](const BodyContext& context) {
    const auto source = context.read(0);
    const auto target = context.write(0);
    for (std::size_t i = 0; i < numel_of(target, b); ++i) {
      store_number(target, b, i, load_number(source, a, i) * factor);
    }
  };
  return work;
}

Compute divide(const View& view, float divisor) {
  Compute work;
  work.reads = {view};
  work.writes = {view};
  work.cost.elementwise_bytes = 2 * bytes(view);
  work.body = [dtype = view.dtype, divisor](const BodyContext& context) {
    const auto target = context.write(0);
    for (std::size_t i = 0; i < numel_of(target, dtype); ++i) {
      store_number(target, dtype, i, load_number(target, dtype, i) / divisor);
    }
  };
  return work;
}

Compute look_at(std::vector<View> reads) {
  return {.cost = {.kernels = 0}, .reads = std::move(reads), .writes = {}, .body = {}};
}

}  // namespace tessera
