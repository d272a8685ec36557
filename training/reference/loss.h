// SPDX-License-Identifier: Apache-2.0
// Losses, with their gradients for the model's output.
#pragma once

#include "training/reference/layer.h"

namespace tessera::real {

struct Loss {
  float value = 0;
  Tensor gradient;
};

/// Mean over the rows of -ln softmax(logits)[target]; `targets` has one id per row.
Loss cross_entropy(const Tensor& logits, const Tensor& targets);

/// Mean over all elements of (output - target)^2.
Loss mean_square(const Tensor& output, const Tensor& targets);

}  // namespace tessera::real
