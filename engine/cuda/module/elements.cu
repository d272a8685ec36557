// SPDX-License-Identifier: Apache-2.0
// One thread per element: the bits of engine/kernels/activation.cpp, rows.cpp and rope.cpp.
#include "engine/cuda/module/device.h"
#include "engine/cuda/module/language_kernels.h"
#include "engine/kernels/scalar_math.h"

namespace tessera::device {
namespace {

template <class From, class To>
__global__ void convert_kernel(const From* from, To* to, std::int64_t numel) {
  for (std::int64_t i = first_element(); i < numel; i += element_stride()) {
    store(to[i], load(from[i]));
  }
}

template <class T>
__global__ void accumulate_kernel(const float* from, T* to, std::int64_t numel) {
  for (std::int64_t i = first_element(); i < numel; i += element_stride()) {
    store(to[i], load(to[i]) + from[i]);
  }
}

template <class T>
__global__ void multiply_kernel(const T* a, const T* b, T* to, std::int64_t numel) {
  for (std::int64_t i = first_element(); i < numel; i += element_stride()) {
    store(to[i], load(a[i]) * load(b[i]));
  }
}

// 0.5 (1 + tanh(z)) = sigmoid(2 z), with z = sqrt(2 / pi) (x + 0.044715 x^3) (arXiv 1606.08415).
template <class T>
__global__ void gelu_kernel(T* x, T* y, std::int64_t numel) {
  constexpr float a = 1.5957691216F;  // 2 sqrt(2 / pi)
  constexpr float b = 0.0713548163F;  // 0.044715 a
  for (std::int64_t i = first_element(); i < numel; i += element_stride()) {
    const float v = load(x[i]);
    const float square = v * v;
    const float s = kernels::sigmoid(v * (a + b * square));
    store(y[i], v * s);
    store(x[i], s + v * (s * (1.0F - s)) * (a + 3.0F * b * square));
  }
}

template <class T>
__global__ void swiglu_kernel(T* gate, T* up, T* y, std::int64_t numel) {
  for (std::int64_t i = first_element(); i < numel; i += element_stride()) {
    const float v = load(gate[i]);
    const float w = load(up[i]);
    const float s = kernels::sigmoid(v);
    store(y[i], v * s * w);
    store(gate[i], v * s);
    store(up[i], w * (s + v * (s * (1.0F - s))));
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

}  // namespace

int convert(ConstArray from, Array to, std::int64_t numel, CudaStream stream) {
  int code = 0;
  with_type(from.dtype, [&](auto* in) {
    with_type(to.dtype, [&](auto* out) {
      using From = std::remove_pointer_t<decltype(in)>;
      using To = std::remove_pointer_t<decltype(out)>;
      code = launch(convert_kernel<From, To>, elements(numel), stream, from.as<From>(),
                    to.as<To>(), numel);
    });
  });
  return code;
}

int accumulate(const float* from, Array to, std::int64_t numel, CudaStream stream) {
  int code = 0;
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    code = launch(accumulate_kernel<T>, elements(numel), stream, from, to.as<T>(), numel);
  });
  return code;
}

int multiply(ConstArray a, ConstArray b, Array to, std::int64_t numel, CudaStream stream) {
  int code = 0;
  with_type(to.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    code = launch(multiply_kernel<T>, elements(numel), stream, a.as<T>(), b.as<T>(), to.as<T>(),
                  numel);
  });
  return code;
}

int gelu(Array x, Array y, std::int64_t numel, CudaStream stream) {
  int code = 0;
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    code = launch(gelu_kernel<T>, elements(numel), stream, x.as<T>(), y.as<T>(), numel);
  });
  return code;
}

int swiglu(Array gate, Array up, Array y, std::int64_t numel, CudaStream stream) {
  int code = 0;
  with_type(gate.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    code = launch(swiglu_kernel<T>, elements(numel), stream, gate.as<T>(), up.as<T>(), y.as<T>(),
                  numel);
  });
  return code;
}

int rotate(const RotaryRows& table, Array x, std::int64_t rows, std::int64_t heads, bool inverse,
           CudaStream stream) {
  int code = 0;
  with_type(x.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    code = launch(rotate_kernel<T>, elements(rows * heads * table.half), stream, table, x.as<T>(),
                  rows, heads, inverse ? -1.0F : 1.0F);
  });
  return code;
}

}  // namespace tessera::device
