// SPDX-License-Identifier: Apache-2.0
// Kernels on the CPU. Compiled for speed in every preset (engine/CMakeLists.txt).
#include <algorithm>
#include <array>
#include <cmath>

#include "engine/numbers/adam.h"
#include "engine/numbers/number.h"
#include "engine/numbers/parallel.h"
#include "tessera/kernels.h"
#include "tessera/number_arrays.h"

namespace tessera {
namespace {

using Chunk = NumberChunk;

void load(ConstElements from, std::size_t first, std::size_t count, float* to) {
  load_numbers(from.part(first, count), {to, count});
}

void store(const float* from, std::size_t first, std::size_t count, Elements to) {
  store_numbers({from, count}, to.part(first, count));
}

// values = f(values), elementwise.
template <class F>
void transform(Elements values, F&& f) {
  Chunk x;
  for_chunks(values.size(), [&](std::size_t first, std::size_t count) {
    load(values, first, count, x.data());
    for (std::size_t i = 0; i < count; ++i) x[i] = f(x[i]);
    store(x.data(), first, count, values);
  });
}

// Sums have 16 lanes, whatever the processor's vectors are, and are added up in double.
class Sum {
 public:
  template <class F>
  void add(const float* x, std::size_t count, F&& f) {
    std::array<float, lanes> sums{};
    const std::size_t whole = count - count % lanes;
    for (std::size_t i = 0; i < whole; i += lanes) {
      for (std::size_t k = 0; k < lanes; ++k) sums[k] += f(x[i + k]);
    }
    for (float s : sums) sum_ += static_cast<double>(s);
    for (std::size_t i = whole; i < count; ++i) sum_ += static_cast<double>(f(x[i]));
  }
  double value() const { return sum_; }

 private:
  static constexpr std::size_t lanes = 16;
  double sum_ = 0;
};

kernels::Array array(Elements elements) { return {elements.bytes.data(), elements.dtype}; }

float largest_code(int bits) { return bits == 8 ? 127.0F : 7.0F; }

// Two codes of 4 bits share a byte, the even element the low half.
void store_code(std::span<std::byte> codes, int bits, std::size_t i, int code) {
  if (bits == 8) {
    codes[i] = static_cast<std::byte>(static_cast<std::int8_t>(code));
    return;
  }
  const auto half = static_cast<unsigned>(code + 8);
  const auto old = static_cast<unsigned>(codes[i / 2]);
  codes[i / 2] =
      static_cast<std::byte>(i % 2 == 0 ? (old & 0xF0U) | half : (old & 0x0FU) | (half << 4U));
}

float load_code(std::span<const std::byte> codes, int bits, std::size_t i) {
  if (bits == 8) return static_cast<float>(static_cast<std::int8_t>(codes[i]));
  const auto both = static_cast<unsigned>(codes[i / 2]);
  return static_cast<float>(static_cast<int>(i % 2 == 0 ? both & 0x0FU : both >> 4U) - 8);
}

std::size_t code_bytes(const BlockFormat& format) {
  return format.row * static_cast<std::size_t>(format.bits) / 8;
}

std::size_t blocks(const BlockFormat& format) {
  return (format.row + format.block - 1) / format.block;
}

void encode_row(const BlockFormat& format, ConstElements from, std::span<std::byte> codes,
                Elements scales) {
  for (std::size_t b = 0; b < blocks(format); ++b) {
    const std::size_t end = std::min(format.row, (b + 1) * format.block);
    float most = 0;
    for (std::size_t i = b * format.block; i < end; ++i) {
      most = std::max(most, std::fabs(load_number(from.bytes, from.dtype, i)));
    }
    const float scale = most / largest_code(format.bits);
    store_number(scales.bytes, scales.dtype, b, scale);
    for (std::size_t i = b * format.block; i < end; ++i) {
      const float x = load_number(from.bytes, from.dtype, i);
      store_code(codes, format.bits, i,
                 scale > 0 ? static_cast<int>(std::nearbyint(x / scale)) : 0);
    }
  }
}

class HostKernels final : public Kernels {
 public:
  void scale(ConstElements from, Elements to, float factor) override {
    Chunk x;
    for_chunks(to.size(), [&](std::size_t first, std::size_t count) {
      load(from, first, count, x.data());
      for (std::size_t i = 0; i < count; ++i) x[i] *= factor;
      store(x.data(), first, count, to);
    });
  }

  void divide(Elements values, float divisor) override {
    transform(values, [divisor](float x) { return x / divisor; });
  }

  void add(ConstElements from, Elements into) override {
    Chunk x, sum;
    for_chunks(into.size(), [&](std::size_t first, std::size_t count) {
      load(from, first, count, x.data());
      load(into, first, count, sum.data());
      for (std::size_t i = 0; i < count; ++i) sum[i] += x[i];
      store(sum.data(), first, count, into);
    });
  }

  void adam(const AdamNumbers& numbers, ConstElements gradient, Elements values, Elements exp_avg,
            Elements exp_avg_sq) override {
    kernels::adam(numbers, {gradient.bytes.data(), gradient.dtype}, array(values), array(exp_avg),
                  array(exp_avg_sq), static_cast<std::int64_t>(values.size()),
                  kernels::threads_limit());
  }

  void adam_in_halves(const AdamNumbers& numbers, const RandomRounding& rounding,
                      ConstElements gradient, Elements values, Elements exp_avg,
                      Elements exp_avg_sq) override {
    TESSERA_ASSERT(values.dtype == DType::float32 && exp_avg.dtype == DType::bfloat16 &&
                       exp_avg_sq.dtype == DType::bfloat16,
                   "moments in bfloat16 are of values in float32");
    kernels::adam_in_halves(numbers, rounding, {gradient.bytes.data(), gradient.dtype},
                            array(values).as<float>(), array(exp_avg).as<kernels::BFloat16>(),
                            array(exp_avg_sq).as<kernels::BFloat16>(),
                            static_cast<std::int64_t>(values.size()), kernels::threads_limit());
  }

  void add_norm(Norm norm, ConstElements values, Elements one) override {
    Chunk x;
    Sum sum;
    float largest = 0;
    for_chunks(values.size(), [&](std::size_t first, std::size_t count) {
      load(values, first, count, x.data());
      switch (norm) {
        case Norm::l1: return sum.add(x.data(), count, [](float e) { return std::fabs(e); });
        case Norm::l2: return sum.add(x.data(), count, [](float e) { return e * e; });
        case Norm::largest:
          for (std::size_t i = 0; i < count; ++i) {
            const float magnitude = std::fabs(x[i]);  // NaN stays, unlike with std::max
            if (magnitude > largest || std::isnan(magnitude)) largest = magnitude;
          }
      }
    });
    const float before = load_number(one.bytes, one.dtype, 0);
    const auto added = static_cast<float>(static_cast<double>(before) + sum.value());
    const bool keeps = std::isnan(before) || before >= largest;
    store_number(one.bytes, one.dtype, 0, norm != Norm::largest ? added : keeps ? before : largest);
  }

  void clip(Norm norm, ConstElements sum, float max_norm, Elements values) override {
    constexpr float epsilon = 1e-6F;  // torch.nn.utils.clip_grad_norm_
    const float all = load_number(sum.bytes, sum.dtype, 0);
    const float factor = max_norm / ((norm == Norm::l2 ? std::sqrt(all) : all) + epsilon);
    if (factor < 1) scale(values, values, factor);
  }

  void unscale(Elements values, float factor, Elements found) override {
    bool finite = true;
    transform(values, [&](float x) {
      finite &= std::isfinite(x);
      return x * factor;
    });
    if (!finite) store_number(found.bytes, found.dtype, 0, 1);
  }

  void quantize(const BlockFormat& format, ConstElements from, std::span<const std::int64_t> rows,
                std::span<std::byte> codes, Elements scales) override {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const auto row = static_cast<std::size_t>(rows[r]);
      encode_row(format, from.part(r * format.row, format.row),
                 codes.subspan(row * code_bytes(format), code_bytes(format)),
                 scales.part(row * blocks(format), blocks(format)));
    }
  }

  void dequantize(const BlockFormat& format, std::span<const std::byte> codes, ConstElements scales,
                  Elements to) override {
    const std::size_t rows = to.size() / format.row;
    const std::size_t all = codes.size() / code_bytes(format);
    for (std::size_t i = 0; i < rows * format.row; ++i) {
      float sum = 0;
      for (std::size_t k = i / format.row; k < all; k += rows) {
        const std::size_t column = i % format.row;
        const std::size_t block = k * blocks(format) + column / format.block;
        sum += load_number(scales.bytes, scales.dtype, block) *
               load_code(codes.subspan(k * code_bytes(format)), format.bits, column);
      }
      store_number(to.bytes, to.dtype, i, sum);
    }
  }

  void read(ConstElements from, std::span<float> to) override { load_numbers(from, to); }
  void write(std::span<const float> from, Elements to) override { store_numbers(from, to); }
  void send(std::span<const std::byte> from, std::span<std::byte> to) override {
    std::copy(from.begin(), from.end(), to.begin());
  }
  void receive(std::span<const std::byte> from,
               std::function<void(std::span<const std::byte>)> then) override {
    then(from);
  }
};

}  // namespace

Kernels& host_kernels() {
  static HostKernels kernels;
  return kernels;
}

}  // namespace tessera
