// SPDX-License-Identifier: Apache-2.0
// Arithmetic on arrays of numbers, wherever they live: what the engine's own bodies are made of.
//
// The idea: a body runs on the host, but its views may be memory of a device. So it never reads or
// writes elements itself; it calls its context's kernels. On a CPU they are done when the call
// returns, on a GPU they are queued on the op's stream; the order is that of the calls in both.
//
//   work.body = [factor](const BodyContext& context) {
//     context.kernels().scale({context.read(0), DType::bfloat16},
//                             {context.write(0), DType::float32}, factor);
//   };
//
// Numbers are computed in float32 and rounded once, to nearest even, when they are stored. Sums
// have a fixed order, so that the same call gives the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "tessera/types.h"

namespace tessera {

namespace kernels {
class Math;  // tessera/math.h
}

/// Elements that a kernel reads.
struct ConstElements {
  std::span<const std::byte> bytes;
  DType dtype = DType::float32;

  std::size_t size() const { return bytes.size() / width(); }
  std::size_t width() const { return static_cast<std::size_t>(size_of(dtype).value); }
  ConstElements part(std::size_t first, std::size_t numel) const {
    return {bytes.subspan(first * width(), numel * width()), dtype};
  }
};

/// Elements that a kernel writes.
struct Elements {
  std::span<std::byte> bytes;
  DType dtype = DType::float32;

  std::size_t size() const { return bytes.size() / width(); }
  std::size_t width() const { return static_cast<std::size_t>(size_of(dtype).value); }
  Elements part(std::size_t first, std::size_t numel) const {
    return {bytes.subspan(first * width(), numel * width()), dtype};
  }
  operator ConstElements() const { return {bytes, dtype}; }
};

/// One step of AdamW for some elements (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2).
struct AdamNumbers {
  float learning_rate = 0;
  float beta1 = 0;
  float beta2 = 0;
  float epsilon = 0;
  float weight_decay = 0;
  float correction1 = 1;  // 1 - beta1^t
  float correction2 = 1;  // 1 - beta2^t
};

/// What numbers that are rounded at random are rounded by: a key, and the place of their first
/// element, so that the same elements are rounded alike wherever they lie.
struct RandomRounding {
  std::uint64_t key = 0;
  std::int64_t first = 0;
};

enum class Norm : std::uint8_t { l1, l2, largest };

/// Numbers as small integers of `bits` bits (8 or 4), `block` elements to a float32 scale, in rows
/// of `row` elements that are quantised one by one.
struct BlockFormat {
  int bits = 8;
  std::size_t row = 0;
  std::size_t block = 0;
};

/// Elementwise work of the engine. REQUIRES of every function: arrays of equal size unless said
/// otherwise, which are the same or do not overlap; dtypes of at most 32 bits.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// to = from * factor.
  virtual void scale(ConstElements from, Elements to, float factor) = 0;
  /// values /= divisor.
  virtual void divide(Elements values, float divisor) = 0;
  /// into += from.
  virtual void add(ConstElements from, Elements into) = 0;

  /// Updates values and moments; all have one dtype but the gradient.
  virtual void adam(const AdamNumbers& numbers, ConstElements gradient, Elements values,
                    Elements exp_avg, Elements exp_avg_sq) = 0;

  /// The same for values in float32 whose moments are bfloat16: these are rounded up or down at
  /// random, as far as they are from either, since to the nearest they would stay what they are
  /// where a step changes them by less than half a place. On CPUs only.
  virtual void adam_in_halves(const AdamNumbers& numbers, const RandomRounding& rounding,
                              ConstElements gradient, Elements values, Elements exp_avg,
                              Elements exp_avg_sq) = 0;

  /// Adds what `values` contribute to one element: the sum of |x| or x^2, or the largest |x|.
  virtual void add_norm(Norm norm, ConstElements values, Elements one) = 0;
  /// values *= max_norm / (norm + 1e-6) if that is below 1, where `sum` is what add_norm has left.
  virtual void clip(Norm norm, ConstElements sum, float max_norm, Elements values) = 0;
  /// values *= factor; `found` becomes 1 if one of them was not finite, and otherwise stays.
  virtual void unscale(Elements values, float factor, Elements found) = 0;

  /// Quantises the rows of `from`, which lie one behind another: row r becomes row rows[r] of codes
  /// and scales.
  virtual void quantize(const BlockFormat& format, ConstElements from,
                        std::span<const std::int64_t> rows, std::span<std::byte> codes,
                        Elements scales) = 0;
  /// Row r of `to` is the sum of rows r, r + n, r + 2n, ... where `to` has n rows.
  virtual void dequantize(const BlockFormat& format, std::span<const std::byte> codes,
                          ConstElements scales, Elements to) = 0;

  /// Copies to and from the host's memory. On a GPU the host waits for everything queued before.
  virtual void read(ConstElements from, std::span<float> to) = 0;
  virtual void write(std::span<const float> from, Elements to) = 0;

  /// As `write` and `read`, but the host does not wait. `send` copies `from` now and writes it to
  /// `to` in the order of calls. `receive` calls `then` with the bytes that `from` had in the order
  /// of calls, later, when the host waits for the operation.
  virtual void send(std::span<const std::byte> from, std::span<std::byte> to) = 0;
  virtual void receive(std::span<const std::byte> from,
                       std::function<void(std::span<const std::byte>)> then) = 0;

  /// The operations of language models, in the same order of calls; null: the host reaches the
  /// memory itself.
  virtual kernels::Math* math() { return nullptr; }
};

/// Kernels for memory that the host can reach. They have no state.
Kernels& host_kernels();

}  // namespace tessera
