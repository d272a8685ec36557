// SPDX-License-Identifier: Apache-2.0
#include "tessera/number_arrays.h"

#include <algorithm>
#include <cstring>

#include "engine/numbers/number.h"

namespace tessera {
void load_numbers(ConstElements from, std::span<float> to) {
  switch (from.dtype) {
    case DType::float32: std::memcpy(to.data(), from.bytes.data(), to.size_bytes()); return;
    case DType::bfloat16:
      for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = load_number(from.bytes, DType::bfloat16, i);
      }
      return;
    default:
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = load_number(from.bytes, from.dtype, i);
  }
}

void store_numbers(std::span<const float> from, Elements to) {
  switch (to.dtype) {
    case DType::float32: std::memcpy(to.bytes.data(), from.data(), from.size_bytes()); return;
    case DType::bfloat16:
      for (std::size_t i = 0; i < from.size(); ++i) {
        store_number(to.bytes, DType::bfloat16, i, from[i]);
      }
      return;
    default:
      for (std::size_t i = 0; i < from.size(); ++i) store_number(to.bytes, to.dtype, i, from[i]);
  }
}

void copy_numbers(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
                  DType to_dtype) {
  const ConstElements source{from, from_dtype};
  const Elements target{to, to_dtype};
  const std::size_t available = std::min(target.size(), source.size());
  if (from_dtype == to_dtype) {
    std::copy_n(from.begin(), available * target.width(), to.begin());
  } else {
    NumberChunk x;
    for_chunks(available, [&](std::size_t first, std::size_t count) {
      load_numbers(source.part(first, count), std::span(x).first(count));
      store_numbers(std::span(x).first(count), target.part(first, count));
    });
  }
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(available * target.width()), to.end(),
            std::byte{0});
}

void RankOrderReduction::add(std::span<const std::byte> input, DType dtype) {
  const ConstElements source{input, dtype};
  TESSERA_ASSERT(source.size() >= values_.size(), "every index has all elements");
  const bool only = added_++ == 0;
  const bool max = reduction_ == Reduction::max;
  NumberChunk loaded;
  for_chunks(values_.size(), [&](std::size_t first, std::size_t count) {
    load_numbers(source.part(first, count), std::span(loaded).first(count));
    float* const sums = values_.data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      const float x = factor_ * loaded[i];
      sums[i] = only ? x : max ? std::max(sums[i], x) : sums[i] + x;
    }
  });
}

void RankOrderReduction::finish(std::span<std::byte> output, DType dtype, std::size_t first) const {
  const Elements target{output, dtype};
  const auto divisor = static_cast<float>(added_);
  const bool divides = reduction_ == Reduction::average;
  NumberChunk x;
  for_chunks(target.size(), [&](std::size_t begin, std::size_t count) {
    const float* const sums = values_.data() + first + begin;
    for (std::size_t i = 0; i < count; ++i) x[i] = divides ? sums[i] / divisor : sums[i];
    store_numbers(std::span(x).first(count), target.part(begin, count));
  });
}

}  // namespace tessera
