// SPDX-License-Identifier: Apache-2.0
// Layer normalisation (Ba, Kiros, Hinton, arXiv 1607.06450): rows to mean 0 and variance 1, then
// scaled and shifted elementwise.
#include <cmath>

#include "training/reference/layer.h"

namespace tessera::real {
namespace {

constexpr float epsilon = 1e-5F;

class LayerNormLayer final : public Layer {
 public:
  Tensor forward(const Tensor& x, const Parameters& p) const override {
    Tensor y(x.rows, x.width);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const Row n = normal(x, row);
      for (std::int64_t c = 0; c < x.width; ++c) {
        const auto k = static_cast<std::size_t>(c);
        const float scaled = (x.at(row, c) - n.mean) * n.inverse * p[0][k];
        y.at(row, c) = p[1].empty() ? scaled : scaled + p[1][k];
      }
    }
    return y;
  }

  Tensor backward(const Tensor& x, const Parameters& p, const Tensor& dy,
                  Parameters& dp) const override {
    Tensor dx(x.rows, x.width);
    const auto width = static_cast<float>(x.width);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      const Row n = normal(x, row);
      float sum = 0;        // of the gradients for the normalised row
      float projected = 0;  // their product with it
      for (std::int64_t c = 0; c < x.width; ++c) {
        const auto k = static_cast<std::size_t>(c);
        const float normalised = (x.at(row, c) - n.mean) * n.inverse;
        const float g = dy.at(row, c) * p[0][k];
        dp[0][k] += dy.at(row, c) * normalised;
        if (!dp[1].empty()) dp[1][k] += dy.at(row, c);
        sum += g;
        projected += g * normalised;
      }
      for (std::int64_t c = 0; c < x.width; ++c) {
        const float normalised = (x.at(row, c) - n.mean) * n.inverse;
        const float g = dy.at(row, c) * p[0][static_cast<std::size_t>(c)];
        dx.at(row, c) = (g - sum / width - normalised * (projected / width)) * n.inverse;
      }
    }
    return dx;
  }

 private:
  struct Row {
    float mean;
    float inverse;  // of the standard deviation
  };

  static Row normal(const Tensor& x, std::int64_t row) {
    const auto width = static_cast<float>(x.width);
    float sum = 0;
    for (std::int64_t c = 0; c < x.width; ++c) sum += x.at(row, c);
    const float mean = sum / width;
    float squares = 0;
    for (std::int64_t c = 0; c < x.width; ++c) {
      const float d = x.at(row, c) - mean;
      squares += d * d;
    }
    return {mean, 1 / std::sqrt(squares / width + epsilon)};
  }
};

}  // namespace

std::unique_ptr<Layer> layer_norm_layer() { return std::make_unique<LayerNormLayer>(); }

}  // namespace tessera::real
