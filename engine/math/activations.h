// SPDX-License-Identifier: Apache-2.0
// Activations of MLPs and their derivatives, one number at a time: for loops of CPUs and kernels of
// GPUs alike.
#pragma once

#include "engine/math/scalar_math.h"
#include "tessera/activation.h"

namespace tessera::kernels {

struct Activated {
  float value, derivative;
};

/// Phi(x) of the standard normal distribution; `density` becomes exp(-x^2 / 2) / sqrt(2 pi).
/// 1 - Phi(|x|) is density times a polynomial in 1 / (1 + 0.4 |x| / sqrt(2)), fitted by Chebyshev's
/// criterion: within 4e-7 of the exact value, relatively, also far from 0.
TESSERA_INLINE inline float normal_distribution(float x, float& density) {
  const float z = (x < 0 ? -x : x) * 0.707106781F;
  const float e = exponential(-z * z);
  const float t = 1.0F / (1.0F + 0.4F * z);
  float p = 0.0861961842F;
  p = p * t - 0.456814229F;
  p = p * t + 0.824164391F;
  p = p * t - 0.549572051F;
  p = p * t + 0.543586791F;
  p = p * t + 0.0750419423F;
  p = p * t + 0.255293548F;
  p = p * t + 0.221892327F;
  p = p * t + 0.000211108301F;
  density = e * 0.398942280F;
  const float tail = 0.5F * e * p;
  return x < 0 ? tail : 1.0F - tail;
}

template <Activation kind>
TESSERA_INLINE inline Activated activated(float v) {
  if constexpr (kind == Activation::relu) {
    return {v > 0 ? v : 0.0F, v > 0 ? 1.0F : 0.0F};
  } else if constexpr (kind == Activation::silu) {
    const float s = sigmoid(v);
    return {v * s, s + v * (s * (1.0F - s))};
  } else if constexpr (kind == Activation::gelu) {
    float density = 0;
    const float s = normal_distribution(v, density);
    return {v * s, s + v * density};
  } else {
    // 0.5 (1 + tanh(z)) = sigmoid(2 z), with z = sqrt(2 / pi) (x + 0.044715 x^3).
    constexpr float a = 1.5957691216F;  // 2 sqrt(2 / pi)
    constexpr float b = 0.0713548163F;  // 0.044715 a
    const float square = v * v;
    const float s = sigmoid(v * (a + b * square));
    return {v * s, s + v * (s * (1.0F - s)) * (a + 3.0F * b * square)};
  }
}

/// Calls f.template operator()<kind>() for the kind that the value names.
template <class F>
decltype(auto) with_activation(Activation kind, const F& f) {
  switch (kind) {
    case Activation::gelu: return f.template operator()<Activation::gelu>();
    case Activation::relu: return f.template operator()<Activation::relu>();
    case Activation::silu: return f.template operator()<Activation::silu>();
    case Activation::gelu_tanh: break;
  }
  return f.template operator()<Activation::gelu_tanh>();
}

}  // namespace tessera::kernels
