// SPDX-License-Identifier: Apache-2.0
// The two halves of a GPT-2 block, without their residual sums.
#include <cmath>

#include "training/reference/affine.h"
#include "training/reference/arithmetic.h"

namespace tessera::real {
namespace {

constexpr auto conv1d = WeightOrder::in_out;

// One head of one sequence: rows of q, k and v lie side by side in the output of c_attn.
class Head {
 public:
  Head(const Tensor& qkv, std::int64_t first_row, std::int64_t rows, std::int64_t head,
       std::int64_t size)
      : qkv_(qkv), first_(first_row), rows_(rows), size_(size), hidden_(qkv.width / 3) {
    for (std::int64_t part = 0; part < 3; ++part) column_[part] = part * hidden_ + head * size;
    scale_ = 1 / std::sqrt(static_cast<float>(size));
    weigh();
  }

  void forward(Tensor& y) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t c = 0; c < size_; ++c) {
        float sum = 0;
        for (std::int64_t j = 0; j <= i; ++j) sum += weights_.at(i, j) * at(value, j, c);
        y.at(first_ + i, column_[query] + c) = sum;
      }
    }
  }

  void backward(const Tensor& dy, Tensor& dqkv) const {
    for (std::int64_t i = 0; i < rows_; ++i) {
      std::vector<float> dweight;
      float projected = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        float sum = 0;
        for (std::int64_t c = 0; c < size_; ++c) {
          const float g = dy.at(first_ + i, column_[query] + c);
          sum += g * at(value, j, c);
          dqkv.at(first_ + j, column_[value] + c) += weights_.at(i, j) * g;
        }
        dweight.push_back(sum);
        projected += sum * weights_.at(i, j);
      }
      for (std::int64_t j = 0; j <= i; ++j) {
        const float dscore =
            (dweight[static_cast<std::size_t>(j)] - projected) * weights_.at(i, j) * scale_;
        for (std::int64_t c = 0; c < size_; ++c) {
          dqkv.at(first_ + i, column_[query] + c) += dscore * at(key, j, c);
          dqkv.at(first_ + j, column_[key] + c) += dscore * at(query, i, c);
        }
      }
    }
  }

 private:
  enum Part : std::uint8_t { query, key, value };

  float at(Part part, std::int64_t row, std::int64_t c) const {
    return qkv_.at(first_ + row, column_[part] + c);
  }

  // Softmax over the rows up to one's own; the greatest score is taken off first.
  void weigh() {
    weights_ = Tensor(rows_, rows_);
    for (std::int64_t i = 0; i < rows_; ++i) {
      float greatest = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        float score = 0;
        for (std::int64_t c = 0; c < size_; ++c) score += at(query, i, c) * at(key, j, c);
        score *= scale_;
        weights_.at(i, j) = score;
        if (j == 0 || score > greatest) greatest = score;
      }
      float sum = 0;
      for (std::int64_t j = 0; j <= i; ++j) {
        weights_.at(i, j) = exponential(weights_.at(i, j) - greatest);
        sum += weights_.at(i, j);
      }
      for (std::int64_t j = 0; j <= i; ++j) weights_.at(i, j) /= sum;
    }
  }

  const Tensor& qkv_;
  std::int64_t first_, rows_, size_, hidden_;
  std::int64_t column_[3];  // by Part; the output lies where the queries do
  float scale_;
  Tensor weights_;  // [rows, rows], zero above the diagonal
};

class AttentionLayer final : public Layer {
 public:
  AttentionLayer(std::int64_t heads, std::int64_t sequence_length)
      : heads_(heads), sequence_length_(sequence_length) {}

  Tensor forward(const Tensor& x, const Parameters& p) const override {
    return affine(mixed(affine(x, p[0], p[1], conv1d)), p[2], p[3], conv1d);
  }

  Tensor backward(const Tensor& x, const Parameters& p, const Tensor& dy,
                  Parameters& dp) const override {
    const Tensor qkv = affine(x, p[0], p[1], conv1d);
    const Tensor dmixed = affine_backward(mixed(qkv), p[2], conv1d, dy, dp[2], dp[3]);
    Tensor dqkv(qkv.rows, qkv.width);
    each_head(qkv, [&](const Head& head) { head.backward(dmixed, dqkv); });
    return affine_backward(x, p[0], conv1d, dqkv, dp[0], dp[1]);
  }

 private:
  template <class Visit>
  void each_head(const Tensor& qkv, Visit&& visit) const {
    for (std::int64_t row = 0; row < qkv.rows; row += sequence_length_) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        visit(Head(qkv, row, sequence_length_, h, qkv.width / 3 / heads_));
      }
    }
  }

  Tensor mixed(const Tensor& qkv) const {
    Tensor y(qkv.rows, qkv.width / 3);
    each_head(qkv, [&](const Head& head) { head.forward(y); });
    return y;
  }

  std::int64_t heads_;
  std::int64_t sequence_length_;
};

class MlpLayer final : public Layer {
 public:
  Tensor forward(const Tensor& x, const Parameters& p) const override {
    const Tensor inner = affine(x, p[0], p[1], conv1d);
    return affine(gelu_->forward(inner, {}), p[2], p[3], conv1d);
  }

  Tensor backward(const Tensor& x, const Parameters& p, const Tensor& dy,
                  Parameters& dp) const override {
    Parameters none;
    const Tensor inner = affine(x, p[0], p[1], conv1d);
    const Tensor active = gelu_->forward(inner, {});
    const Tensor dactive = affine_backward(active, p[2], conv1d, dy, dp[2], dp[3]);
    const Tensor dinner = gelu_->backward(inner, {}, dactive, none);
    return affine_backward(x, p[0], conv1d, dinner, dp[0], dp[1]);
  }

 private:
  std::unique_ptr<Layer> gelu_ = gelu_layer();
};

}  // namespace

std::unique_ptr<Layer> attention_layer(std::int64_t heads, std::int64_t sequence_length) {
  return std::make_unique<AttentionLayer>(heads, sequence_length);
}

std::unique_ptr<Layer> mlp_layer() { return std::make_unique<MlpLayer>(); }

}  // namespace tessera::real
