// SPDX-License-Identifier: Apache-2.0
#include "training/reference/layer.h"

namespace tessera::real {
namespace {

class EmbeddingLayer final : public Layer {
 public:
  explicit EmbeddingLayer(std::int64_t width) : width_(width) {}

  Tensor forward(const Tensor& x, const Parameters& p) const override {
    Tensor y(x.rows, width_);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t c = 0; c < width_; ++c) y.at(row, c) = p[0][place(x, row, c)];
    }
    return y;
  }

  Tensor backward(const Tensor& x, const Parameters&, const Tensor& dy,
                  Parameters& dp) const override {
    for (std::int64_t row = 0; row < x.rows; ++row) {
      for (std::int64_t c = 0; c < width_; ++c) dp[0][place(x, row, c)] += dy.at(row, c);
    }
    return {};
  }

 private:
  std::size_t place(const Tensor& ids, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>(static_cast<std::int64_t>(ids.at(row, 0)) * width_ + column);
  }

  std::int64_t width_;
};

}  // namespace

std::unique_ptr<Layer> embedding_layer(std::int64_t width) {
  return std::make_unique<EmbeddingLayer>(width);
}

}  // namespace tessera::real
