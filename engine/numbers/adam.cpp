// SPDX-License-Identifier: Apache-2.0
#include "engine/numbers/adam.h"

#include <cmath>
#include <functional>

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t grain = 32 << 10;  // tens of microseconds

struct ToNearest {
  template <class T>
  TESSERA_INLINE void operator()(std::int64_t, float m, float v, T& exp_avg, T& exp_avg_sq) const {
    store(exp_avg, m);
    store(exp_avg_sq, v);
  }
};

// `below` is uniform below 2^16, which is what the last place of bfloat16 has of float32.
TESSERA_INLINE inline void store_at_random(BFloat16& to, float value, std::uint32_t below) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool finite = (bits & 0x7F800000U) != 0x7F800000U;
  BFloat16 nearest{};
  store(nearest, value);
  to.bits = finite ? static_cast<std::uint16_t>((bits + below) >> 16) : nearest.bits;
}

struct AtRandom {
  std::uint32_t key0, key1;

  // A hash of the element's place whose every bit depends on every bit of it (C. Wellons,
  // "lowbias32", 2018), with a second key in between, so that keys are no shifts of one another.
  TESSERA_INLINE std::uint32_t bits_of(std::int64_t i) const {
    std::uint32_t x = static_cast<std::uint32_t>(i) + key0;
    x = (x ^ (x >> 16)) * 0x7FEB352DU;
    x = (x ^ (x >> 15) ^ key1) * 0x846CA68BU;
    return x ^ (x >> 16);
  }
  TESSERA_INLINE void operator()(std::int64_t i, float m, float v, BFloat16& exp_avg,
                                 BFloat16& exp_avg_sq) const {
    const std::uint32_t bits = bits_of(i);
    store_at_random(exp_avg, m, bits & 0xFFFFU);
    store_at_random(exp_avg_sq, v, bits >> 16);
  }
};

// The order of torch/optim/adamw.py and of the kernel for GPUs
// (engine/backends/cuda/module/optimizer.cu).
template <class G, class T, class M, class StoreMoments>
TESSERA_INLINE inline void step(const AdamNumbers& a, const G* __restrict__ gradient,
                                T* __restrict__ values, M* __restrict__ exp_avg,
                                M* __restrict__ exp_avg_sq, std::int64_t numel,
                                const StoreMoments& store_moments) {
  const float keep = 1 - a.learning_rate * a.weight_decay;
  for (std::int64_t i = 0; i < numel; ++i) {
    const float g = load(gradient[i]);
    const float m = a.beta1 * load(exp_avg[i]) + (1 - a.beta1) * g;
    const float v = a.beta2 * load(exp_avg_sq[i]) + (1 - a.beta2) * g * g;
    const float denominator = std::sqrt(v / a.correction2) + a.epsilon;
    store(values[i], load(values[i]) * keep - a.learning_rate * (m / a.correction1) / denominator);
    store_moments(i, m, v, exp_avg[i], exp_avg_sq[i]);
  }
}

}  // namespace

void adam(const AdamNumbers& numbers, ConstArray gradient, Array values, Array exp_avg,
          Array exp_avg_sq, std::int64_t numel, int threads) {
  with_type(gradient.dtype, [&](auto* of_gradient) {
    using G = std::remove_pointer_t<decltype(of_gradient)>;
    with_type(values.dtype, [&](auto* of_values) {
      using T = std::remove_pointer_t<decltype(of_values)>;
      const auto part = [&](int, std::int64_t begin, std::int64_t end) {
        const G* const g = gradient.as<G>() + begin;
        T* const p = values.as<T>() + begin;
        T* const m = exp_avg.as<T>() + begin;
        T* const v = exp_avg_sq.as<T>() + begin;
        wide([=]() TESSERA_INLINE { step(numbers, g, p, m, v, end - begin, ToNearest{}); });
      };
      parallel(threads, numel, grain, std::cref(part));  // a copy of it would take memory
    });
  });
}

void adam_in_halves(const AdamNumbers& numbers, const RandomRounding& rounding, ConstArray gradient,
                    float* values, BFloat16* exp_avg, BFloat16* exp_avg_sq, std::int64_t numel,
                    int threads) {
  with_type(gradient.dtype, [&](auto* of_gradient) {
    using G = std::remove_pointer_t<decltype(of_gradient)>;
    parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
      const G* const g = gradient.as<G>() + begin;
      float* const p = values + begin;
      BFloat16* const m = exp_avg + begin;
      BFloat16* const v = exp_avg_sq + begin;
      const auto place = static_cast<std::uint32_t>(rounding.first + begin);
      const AtRandom at_random{static_cast<std::uint32_t>(rounding.key) + place,
                               static_cast<std::uint32_t>(rounding.key >> 32)};
      wide([=]() TESSERA_INLINE { step(numbers, g, p, m, v, end - begin, at_random); });
    });
  });
}

}  // namespace tessera::kernels
