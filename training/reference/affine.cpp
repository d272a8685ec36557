// SPDX-License-Identifier: Apache-2.0
#include "training/reference/affine.h"

namespace tessera::real {
namespace {

// Where element (in, out) of a weight lies.
struct WeightPlace {
  std::int64_t per_in, per_out;

  WeightPlace(WeightOrder order, std::int64_t in, std::int64_t out)
      : per_in(order == WeightOrder::out_in ? 1 : out),
        per_out(order == WeightOrder::out_in ? in : 1) {}
  std::size_t operator()(std::int64_t in, std::int64_t out) const {
    return static_cast<std::size_t>(in * per_in + out * per_out);
  }
};

class LinearLayer final : public Layer {
 public:
  explicit LinearLayer(WeightOrder order) : order_(order) {}
  Tensor forward(const Tensor& x, const Parameters& p) const override {
    return affine(x, p[0], p[1], order_);
  }
  Tensor backward(const Tensor& x, const Parameters& p, const Tensor& dy,
                  Parameters& dp) const override {
    return affine_backward(x, p[0], order_, dy, dp[0], dp[1]);
  }

 private:
  WeightOrder order_;
};

}  // namespace

Tensor affine(const Tensor& x, const std::vector<float>& w, const std::vector<float>& b,
              WeightOrder order) {
  Tensor y(x.rows, static_cast<std::int64_t>(w.size()) / x.width);
  const WeightPlace place(order, x.width, y.width);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t out = 0; out < y.width; ++out) {
      float sum = 0;
      for (std::int64_t in = 0; in < x.width; ++in) sum += x.at(row, in) * w[place(in, out)];
      y.at(row, out) = b.empty() ? sum : sum + b[static_cast<std::size_t>(out)];
    }
  }
  return y;
}

Tensor affine_backward(const Tensor& x, const std::vector<float>& w, WeightOrder order,
                       const Tensor& dy, std::vector<float>& dw, std::vector<float>& db) {
  const WeightPlace place(order, x.width, dy.width);
  for (std::int64_t out = 0; out < dy.width; ++out) {
    for (std::int64_t in = 0; in < x.width; ++in) {
      float sum = 0;
      for (std::int64_t row = 0; row < x.rows; ++row) sum += x.at(row, in) * dy.at(row, out);
      dw[place(in, out)] += sum;
    }
    if (db.empty()) continue;
    float sum = 0;
    for (std::int64_t row = 0; row < x.rows; ++row) sum += dy.at(row, out);
    db[static_cast<std::size_t>(out)] += sum;
  }
  Tensor dx(x.rows, x.width);
  for (std::int64_t row = 0; row < x.rows; ++row) {
    for (std::int64_t in = 0; in < x.width; ++in) {
      float sum = 0;
      for (std::int64_t out = 0; out < dy.width; ++out) sum += dy.at(row, out) * w[place(in, out)];
      dx.at(row, in) = sum;
    }
  }
  return dx;
}

std::unique_ptr<Layer> linear_layer(WeightOrder order) {
  return std::make_unique<LinearLayer>(order);
}

}  // namespace tessera::real
