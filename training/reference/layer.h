// SPDX-License-Identifier: Apache-2.0
// The reference implementation of modules, forward and backward.
//
// The idea: a layer is a pure function of its input and its parameters. It keeps nothing between
// the passes; backward works out again what it needs, which gives the same bits as keeping it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace tessera::real {

/// A matrix, row by row. Token ids and positions are floats too, one per row.
struct Tensor {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::vector<float> values;

  Tensor() = default;
  Tensor(std::int64_t r, std::int64_t w) : rows(r), width(w), values(index(r * w)) {}
  float& at(std::int64_t row, std::int64_t column) { return values[index(row * width + column)]; }
  float at(std::int64_t row, std::int64_t column) const {
    return values[index(row * width + column)];
  }

 private:
  static std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }
};

inline void add(const Tensor& from, Tensor& into) {
  for (std::size_t i = 0; i < into.values.size(); ++i) into.values[i] += from.values[i];
}

/// The parameters of a layer, or their gradients, in the order of its constructor's comment. An
/// absent bias is empty.
using Parameters = std::vector<std::vector<float>>;

class Layer {
 public:
  virtual ~Layer() = default;
  virtual Tensor forward(const Tensor& x, const Parameters& p) const = 0;
  /// The gradient for `x`, given that for the output. Adds to `dp`, which is shaped like `p`.
  virtual Tensor backward(const Tensor& x, const Parameters& p, const Tensor& dy,
                          Parameters& dp) const = 0;
};

enum class WeightOrder : std::uint8_t { out_in, in_out };  // Linear; Conv1D

/// weight, bias.
std::unique_ptr<Layer> linear_layer(WeightOrder order);
/// weight, rows of `width`. Reads one id per row; has no gradient for it.
std::unique_ptr<Layer> embedding_layer(std::int64_t width);
/// weight, bias.
std::unique_ptr<Layer> layer_norm_layer();
/// x * Phi(x) in the form of GPT-2: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
std::unique_ptr<Layer> gelu_layer();
std::unique_ptr<Layer> relu_layer();
/// c_attn.weight, c_attn.bias, c_proj.weight, c_proj.bias, both Conv1D. REQUIRES: the rows are
/// whole sequences, the width a multiple of `heads`.
std::unique_ptr<Layer> attention_layer(std::int64_t heads, std::int64_t sequence_length);
/// c_fc.weight, c_fc.bias, c_proj.weight, c_proj.bias, both Conv1D, GELU in between.
std::unique_ptr<Layer> mlp_layer();

}  // namespace tessera::real
