// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/activation.h"

#include "engine/math/scalar_math.h"
#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t grain = 1 << 14;

}  // namespace

// 0.5 (1 + tanh(z)) = sigmoid(2 z), with z = sqrt(2 / pi) (x + 0.044715 x^3) (arXiv 1606.08415).
void gelu(Array x, Array y, std::int64_t numel, int threads) {
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
      T* const in = x.as<T>();
      T* const out = y.as<T>();
      wide([=]() TESSERA_INLINE {
        constexpr float a = 1.5957691216F;  // 2 sqrt(2 / pi)
        constexpr float b = 0.0713548163F;  // 0.044715 a
        for (std::int64_t i = begin; i < end; ++i) {
          const float v = load(in[i]);
          const float square = v * v;
          const float s = sigmoid(v * (a + b * square));
          store(out[i], v * s);
          store(in[i], s + v * (s * (1.0F - s)) * (a + 3.0F * b * square));
        }
      });
    });
  });
}

void swiglu(Array gate, Array up, Array y, std::int64_t numel, int threads) {
  with_type(gate.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
      T* const g = gate.as<T>();
      T* const u = up.as<T>();
      T* const out = y.as<T>();
      wide([=]() TESSERA_INLINE {
        for (std::int64_t i = begin; i < end; ++i) {
          const float v = load(g[i]);
          const float w = load(u[i]);
          const float s = sigmoid(v);
          store(out[i], v * s * w);
          store(g[i], v * s);
          store(u[i], w * (s + v * (s * (1.0F - s))));
        }
      });
    });
  });
}

void multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel, int threads) {
  with_type(a.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
      const T* const x = a.as<T>();
      const T* const y = b.as<T>();
      T* const out = to.as<T>();
      wide([=]() TESSERA_INLINE {
        for (std::int64_t i = begin; i < end; ++i) store(out[i], load(x[i]) * load(y[i]));
      });
    });
  });
}

}  // namespace tessera::kernels
