// SPDX-License-Identifier: Apache-2.0
// What a training step of a language model launches on one GPU: its layers by the model's own code,
// clipping and AdamW, and the casts of its parameters.
#pragma once

#include "tessera/model.h"
#include "tests/training/kernels/counted_math.h"

namespace tessera::test {

struct CountedShape {
  std::int64_t batch = 1, length = 1;
  DType dtype = DType::bfloat16;  // of parameters as they are computed with, and of gradients
  bool fp8 = false;               // LanguageModelOptions::fp8
};

/// Fails: as LanguageModel::create.
Result<KernelCounts> count_step(const Model& model, const CountedShape& shape);

}  // namespace tessera::test
