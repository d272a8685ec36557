// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/number_arrays.h"

#include <algorithm>

#include "engine/runtime/number.h"

namespace tessera {
namespace {

std::size_t width(DType dtype) { return static_cast<std::size_t>(size_of(dtype).value); }

// The dtype is decided once and not for every element.
template <class F>
void with_loader(DType dtype, F&& f) {
  switch (dtype) {
    case DType::float32:
      return f([](auto bytes, std::size_t i) { return load_number(bytes, DType::float32, i); });
    case DType::bfloat16:
      return f([](auto bytes, std::size_t i) { return load_number(bytes, DType::bfloat16, i); });
    default: return f([dtype](auto bytes, std::size_t i) { return load_number(bytes, dtype, i); });
  }
}

}  // namespace

void copy_numbers(std::span<const std::byte> from, DType from_dtype, std::span<std::byte> to,
                  DType to_dtype) {
  const std::size_t numel = to.size() / width(to_dtype);
  const std::size_t available = std::min(numel, from.size() / width(from_dtype));
  if (from_dtype == to_dtype) {
    std::copy_n(from.begin(), available * width(to_dtype), to.begin());
  } else {
    with_loader(from_dtype, [&](auto load) {
      for (std::size_t i = 0; i < available; ++i) store_number(to, to_dtype, i, load(from, i));
    });
  }
  std::fill(to.begin() + static_cast<std::ptrdiff_t>(available * width(to_dtype)), to.end(),
            std::byte{0});
}

void RankOrderReduction::add(std::span<const std::byte> input, DType dtype) {
  TESSERA_ASSERT(input.size() >= values_.size() * width(dtype), "every index has all elements");
  const bool first = added_++ == 0;
  const bool max = reduction_ == Reduction::max;
  with_loader(dtype, [&](auto load) {
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const float x = factor_ * load(input, i);
      values_[i] = first ? x : max ? std::max(values_[i], x) : values_[i] + x;
    }
  });
}

void RankOrderReduction::finish(std::span<std::byte> output, DType dtype, std::size_t first) const {
  const std::size_t numel = output.size() / width(dtype);
  const auto divisor = static_cast<float>(added_);
  for (std::size_t i = 0; i < numel; ++i) {
    const float sum = values_[first + i];
    store_number(output, dtype, i, reduction_ == Reduction::average ? sum / divisor : sum);
  }
}

}  // namespace tessera
