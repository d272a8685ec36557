// SPDX-License-Identifier: Apache-2.0
#include "training/kernels/activation.h"

#include "engine/math/activations.h"
#include "engine/numbers/parallel.h"
#include "engine/numbers/wide.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t grain = 1 << 14;

}  // namespace

void activate(Activation kind, Array x, Array y, std::int64_t numel, int threads) {
  with_activation(kind, [&]<Activation k>() {
    with_type(x.dtype, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
        T* const in = x.as<T>();
        T* const out = y.as<T>();
        wide([=]() TESSERA_INLINE {
          for (std::int64_t i = begin; i < end; ++i) {
            const Activated a = activated<k>(load(in[i]));
            store(out[i], a.value);
            store(in[i], a.derivative);
          }
        });
      });
    });
  });
}

void activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel,
                    int threads) {
  with_activation(kind, [&]<Activation k>() {
    with_type(gate.dtype, [&](auto* type) {
      using T = std::remove_pointer_t<decltype(type)>;
      parallel(threads, numel, grain, [&](int, std::int64_t begin, std::int64_t end) {
        T* const g = gate.as<T>();
        T* const u = up.as<T>();
        T* const out = y.as<T>();
        wide([=]() TESSERA_INLINE {
          for (std::int64_t i = begin; i < end; ++i) {
            const Activated a = activated<k>(load(g[i]));
            const float w = load(u[i]);
            store(out[i], a.value * w);
            store(g[i], a.value);
            store(u[i], w * a.derivative);
          }
        });
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
