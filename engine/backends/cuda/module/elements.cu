// SPDX-License-Identifier: Apache-2.0
// One thread per element or per four, with the bits of the CPU: training/kernels/activation.cpp,
// rows.cpp and rope.cpp.
#include "engine/backends/cuda/module/device.h"
#include "engine/backends/cuda/module/language_kernels.h"
#include "engine/backends/cuda/module/packs.h"
#include "engine/math/activations.h"

namespace tessera::device {
namespace {

constexpr int pack_numel = 4;

template <int n, class From, class To>
__global__ void convert_kernel(const From* from, To* to, std::int64_t numel) {
  for (std::int64_t i = first_element() * n; i < numel; i += element_stride() * n) {
    const auto in = load_pack<From, n>(from + i);
    Pack<To, n> out;
    for (int k = 0; k < n; ++k) store(out.at[k], load(in.at[k]));
    store_pack(to + i, out);
  }
}

template <int n, class T>
__global__ void accumulate_kernel(const float* from, T* to, std::int64_t numel) {
  for (std::int64_t i = first_element() * n; i < numel; i += element_stride() * n) {
    const auto in = load_pack<float, n>(from + i);
    auto sum = load_pack<T, n>(to + i);
    for (int k = 0; k < n; ++k) store(sum.at[k], load(sum.at[k]) + in.at[k]);
    store_pack(to + i, sum);
  }
}

template <int n, class T>
__global__ void multiply_kernel(const T* a, const T* b, T* to, std::int64_t numel) {
  for (std::int64_t i = first_element() * n; i < numel; i += element_stride() * n) {
    auto product = load_pack<T, n>(a + i);
    const auto factor = load_pack<T, n>(b + i);
    for (int k = 0; k < n; ++k) store(product.at[k], load(product.at[k]) * load(factor.at[k]));
    store_pack(to + i, product);
  }
}

// Of the few numbers of adapters, one at a time.
template <class T>
__global__ void scale_kernel(T* values, float factor, std::int64_t numel) {
  for (std::int64_t i = first_element(); i < numel; i += element_stride()) {
    store(values[i], load(values[i]) * factor);
  }
}

template <int n, Activation kind, class T>
__global__ void activate_kernel(T* x, T* y, std::int64_t numel) {
  for (std::int64_t i = first_element() * n; i < numel; i += element_stride() * n) {
    auto in = load_pack<T, n>(x + i);
    Pack<T, n> out;
    for (int k = 0; k < n; ++k) {
      const kernels::Activated a = kernels::activated<kind>(load(in.at[k]));
      store(out.at[k], a.value);
      store(in.at[k], a.derivative);
    }
    store_pack(y + i, out);
    store_pack(x + i, in);
  }
}

template <int n, Activation kind, class T>
__global__ void activate_gated_kernel(T* gate, T* up, T* y, std::int64_t numel) {
  for (std::int64_t i = first_element() * n; i < numel; i += element_stride() * n) {
    auto g = load_pack<T, n>(gate + i);
    auto u = load_pack<T, n>(up + i);
    Pack<T, n> out;
    for (int k = 0; k < n; ++k) {
      const kernels::Activated a = kernels::activated<kind>(load(g.at[k]));
      const float w = load(u.at[k]);
      store(out.at[k], a.value * w);
      store(g.at[k], a.value);
      store(u.at[k], w * a.derivative);
    }
    store_pack(y + i, out);
    store_pack(gate + i, g);
    store_pack(up + i, u);
  }
}

template <class T>
__global__ void rotate_kernel(RotaryRows table, T* x, std::int64_t rows, std::int64_t heads,
                              float sign) {
  const std::int64_t half = table.half;
  for (std::int64_t k = first_element(); k < rows * heads * half; k += element_stride()) {
    const std::int64_t i = k % half;
    const std::int64_t head = k / half;  // of all rows
    const std::int64_t angle = head / heads % table.length * half + i;
    T* const first = x + head * 2 * half + i;
    T* const second = first + half;
    const float c = table.cosine[angle];
    const float s = table.sine[angle];
    const float a = load(*first);
    const float b = load(*second);
    store(*first, a * c - sign * b * s);
    store(*second, b * c + sign * a * s);
  }
}

// Launches `of_packs` if the arrays allow it, otherwise `of_ones`.
template <class... Parameters, class... Arrays>
int launch_packed(void (*of_packs)(Parameters...), void (*of_ones)(Parameters...),
                  std::int64_t numel, CudaStream stream, Arrays*... arrays) {
  if (numel % pack_numel == 0 && (is_aligned(arrays, pack_numel) && ...)) {
    return launch(of_packs, elements(numel / pack_numel), stream, arrays..., numel);
  }
  return launch(of_ones, elements(numel), stream, arrays..., numel);
}

}  // namespace

int convert(ConstArray from, Array to, std::int64_t numel, CudaStream stream) {
  return typed_launch(from.dtype, [&]<class From>(From*) {
    return typed_launch(to.dtype, [&]<class To>(To*) {
      return launch_packed(convert_kernel<pack_numel, From, To>, convert_kernel<1, From, To>, numel,
                           stream, from.as<From>(), to.as<To>());
    });
  });
}

int accumulate(const float* from, Array to, std::int64_t numel, CudaStream stream) {
  return typed_launch(to.dtype, [&]<class T>(T*) {
    return launch_packed(accumulate_kernel<pack_numel, T>, accumulate_kernel<1, T>, numel, stream,
                         from, to.as<T>());
  });
}

int multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel, CudaStream stream) {
  return typed_launch(to.dtype, [&]<class T>(T*) {
    return launch_packed(multiply_kernel<pack_numel, T>, multiply_kernel<1, T>, numel, stream,
                         a.as<T>(), b.as<T>(), to.as<T>());
  });
}

int scale(Array values, float factor, std::int64_t numel, CudaStream stream) {
  return typed_launch(values.dtype, [&]<class T>(T*) {
    return launch(scale_kernel<T>, elements(numel), stream, values.as<T>(), factor, numel);
  });
}

int activate(Activation kind, Array x, Array y, std::int64_t numel, CudaStream stream) {
  return kernels::with_activation(kind, [&]<Activation f>() {
    return typed_launch(x.dtype, [&]<class T>(T*) {
      return launch_packed(activate_kernel<pack_numel, f, T>, activate_kernel<1, f, T>, numel,
                           stream, x.as<T>(), y.as<T>());
    });
  });
}

int activate_gated(Activation kind, Array gate, Array up, Array y, std::int64_t numel,
                   CudaStream stream) {
  return kernels::with_activation(kind, [&]<Activation f>() {
    return typed_launch(gate.dtype, [&]<class T>(T*) {
      return launch_packed(activate_gated_kernel<pack_numel, f, T>, activate_gated_kernel<1, f, T>,
                           numel, stream, gate.as<T>(), up.as<T>(), y.as<T>());
    });
  });
}

int rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads, bool inverse,
           CudaStream stream) {
  return typed_launch(x.dtype, [&]<class T>(T*) {
    return launch(rotate_kernel<T>, elements(rows * heads * table.half), stream, table, x.as<T>(),
                  rows, heads, inverse ? -1.0F : 1.0F);
  });
}

}  // namespace tessera::device
