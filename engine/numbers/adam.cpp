// SPDX-License-Identifier: Apache-2.0
#include "engine/numbers/adam.h"

#include <cmath>

#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t grain = 32 << 10;  // tens of microseconds

// The order of torch/optim/adamw.py and of the kernel for GPUs
// (engine/backends/cuda/module/kernels.cu).
template <class G, class T>
TESSERA_INLINE inline void step(const AdamNumbers& a, const G* __restrict__ gradient,
                                T* __restrict__ values, T* __restrict__ exp_avg,
                                T* __restrict__ exp_avg_sq, std::int64_t numel) {
  const float keep = 1 - a.learning_rate * a.weight_decay;
  for (std::int64_t i = 0; i < numel; ++i) {
    const float g = load(gradient[i]);
    const float m = a.beta1 * load(exp_avg[i]) + (1 - a.beta1) * g;
    const float v = a.beta2 * load(exp_avg_sq[i]) + (1 - a.beta2) * g * g;
    const float denominator = std::sqrt(v / a.correction2) + a.epsilon;
    store(values[i], load(values[i]) * keep - a.learning_rate * (m / a.correction1) / denominator);
    store(exp_avg[i], m);
    store(exp_avg_sq[i], v);
  }
}

}  // namespace

void adam(const AdamNumbers& numbers, ConstArray gradient, Array values, Array exp_avg,
          Array exp_avg_sq, std::int64_t numel, int threads) {
  with_type(gradient.dtype, [&](auto* of_gradient) {
    using G = std::remove_pointer_t<decltype(of_gradient)>;
    with_type(values.dtype, [&](auto* of_values) {
      using T = std::remove_pointer_t<decltype(of_values)>;
      parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
        const G* const g = gradient.as<G>() + begin;
        T* const p = values.as<T>() + begin;
        T* const m = exp_avg.as<T>() + begin;
        T* const v = exp_avg_sq.as<T>() + begin;
        wide([=]() TESSERA_INLINE { step(numbers, g, p, m, v, end - begin); });
      });
    });
  });
}

}  // namespace tessera::kernels
