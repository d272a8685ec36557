// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/head_order.h"

#include <cstring>

#include "engine/numbers/parallel.h"

namespace tessera::kernels {
namespace {

// copy(element of joined, part, element of that part): one head of one token.
template <class Copy>
void each_head(const HeadOrder& s, int threads, const Copy& copy) {
  parallel(threads, s.tokens, 64, [&](int, std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * s.heads; row < end * s.heads; ++row) {
      for (std::int64_t part = 0; part < 3; ++part) {
        copy((3 * row + part) * s.head_dim, part, row * s.head_dim);
      }
    }
  });
}

std::size_t head_bytes(const HeadOrder& s, DType dtype) {
  return static_cast<std::size_t>(s.head_dim * size_of(dtype).value);
}

}  // namespace

void split_heads(const HeadOrder& shape, ConstArray joined, const HeadArrays<Array>& to,
                 int threads) {
  const Array parts[] = {to.q, to.k, to.v};
  const std::size_t bytes = head_bytes(shape, joined.dtype);
  each_head(shape, threads, [&](std::int64_t from, std::int64_t part, std::int64_t at) {
    std::memcpy(parts[part].from(at).data, joined.from(from).data, bytes);
  });
}

void join_heads(const HeadOrder& shape, const HeadArrays<Array>& from, Array joined, int threads) {
  const Array parts[] = {from.q, from.k, from.v};
  const std::size_t bytes = head_bytes(shape, joined.dtype);
  each_head(shape, threads, [&](std::int64_t to, std::int64_t part, std::int64_t at) {
    std::memcpy(joined.from(to).data, parts[part].from(at).data, bytes);
  });
}

}  // namespace tessera::kernels
