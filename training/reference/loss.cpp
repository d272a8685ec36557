// SPDX-License-Identifier: Apache-2.0
#include "training/reference/loss.h"

#include <algorithm>

#include "training/reference/arithmetic.h"

namespace tessera::real {

Loss cross_entropy(const Tensor& logits, const Tensor& targets) {
  Loss loss{0, Tensor(logits.rows, logits.width)};
  const auto rows = static_cast<float>(logits.rows);
  for (std::int64_t row = 0; row < logits.rows; ++row) {
    float greatest = logits.at(row, 0);
    for (std::int64_t c = 1; c < logits.width; ++c) {
      greatest = std::max(greatest, logits.at(row, c));
    }
    float sum = 0;
    for (std::int64_t c = 0; c < logits.width; ++c) {
      const float e = exponential(logits.at(row, c) - greatest);
      loss.gradient.at(row, c) = e;
      sum += e;
    }
    const auto target = static_cast<std::int64_t>(targets.at(row, 0));
    loss.value += logarithm(sum) - (logits.at(row, target) - greatest);
    for (std::int64_t c = 0; c < logits.width; ++c) {
      float& g = loss.gradient.at(row, c);
      g = (g / sum - (c == target ? 1.0F : 0.0F)) / rows;
    }
  }
  loss.value /= rows;
  return loss;
}

Loss mean_square(const Tensor& output, const Tensor& targets) {
  Loss loss{0, Tensor(output.rows, output.width)};
  const auto count = static_cast<float>(output.values.size());
  for (std::size_t i = 0; i < output.values.size(); ++i) {
    const float d = output.values[i] - targets.values[i];
    loss.value += d * d;
    loss.gradient.values[i] = 2 * d / count;
  }
  loss.value /= count;
  return loss;
}

}  // namespace tessera::real
