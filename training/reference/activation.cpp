// SPDX-License-Identifier: Apache-2.0
// Functions of single elements.
#include "training/reference/arithmetic.h"
#include "training/reference/layer.h"

namespace tessera::real {
namespace {

struct Gelu {
  static constexpr float sqrt_2_over_pi = 0.797884561F;
  static constexpr float cubic = 0.044715F;

  static float tangent(float x) {
    return hyperbolic_tangent(sqrt_2_over_pi * (x + cubic * (x * x * x)));
  }
  static float value(float x) { return 0.5F * x * (1 + tangent(x)); }
  static float slope(float x) {
    const float t = tangent(x);
    const float inner = sqrt_2_over_pi * (1 + 3 * cubic * (x * x));
    return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * inner;
  }
};

struct Relu {
  static float value(float x) { return x > 0 ? x : 0; }
  static float slope(float x) { return x > 0 ? 1 : 0; }
};

template <class Function>
class Elementwise final : public Layer {
 public:
  Tensor forward(const Tensor& x, const Parameters&) const override {
    Tensor y(x.rows, x.width);
    for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] = Function::value(x.values[i]);
    return y;
  }
  Tensor backward(const Tensor& x, const Parameters&, const Tensor& dy,
                  Parameters&) const override {
    Tensor dx(x.rows, x.width);
    for (std::size_t i = 0; i < dx.values.size(); ++i) {
      dx.values[i] = dy.values[i] * Function::slope(x.values[i]);
    }
    return dx;
  }
};

}  // namespace

std::unique_ptr<Layer> gelu_layer() { return std::make_unique<Elementwise<Gelu>>(); }
std::unique_ptr<Layer> relu_layer() { return std::make_unique<Elementwise<Relu>>(); }

}  // namespace tessera::real
