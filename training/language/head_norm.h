// SPDX-License-Identifier: Apache-2.0
// The norm of queries or of keys before their rotation, in place.
#pragma once

#include "training/language/layers.h"

namespace tessera::language {

class HeadNorm {
 public:
  HeadNorm(const Shape& shape, const HeadNormSlots& slots, std::int64_t heads,
           std::int64_t head_dim);

  bool exists() const { return slots_.weight.read >= 0; }

  /// What forward keeps for backward.
  struct Saved {
    kernels::Array normal;
    float* reciprocal = nullptr;
  };
  Saved take_saved(Arena& arena) const;
  struct Temporary {
    float *values = nullptr, *gradient = nullptr, *sums = nullptr, *scale = nullptr;
  };
  Temporary take_temporary(Arena& arena, bool backward) const;

  void forward(const Call& call, const Weights& weights, kernels::Array heads, const Saved& saved,
               const Temporary& own) const;
  /// The gradient of the norm's output becomes that of its input.
  void backward(const Call& call, const Weights& weights, kernels::Array gradient,
                const Saved& saved, const Temporary& own) const;

 private:
  std::int64_t numel() const { return norm_.rows * norm_.width; }
  bool converts() const { return shape_.dtype != DType::float32; }

  const Shape& shape_;
  const HeadNormSlots slots_;
  const kernels::NormShape norm_;
};

}  // namespace tessera::language
