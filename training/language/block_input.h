// SPDX-License-Identifier: Apache-2.0
// What attention or an MLP keeps of its input until backward: the input itself; or, where the norm
// before it is computed again, what that has made of the stream, with the norm's parameters.
//
// The idea: those lie with the module and not with the norm, because backward comes to the module
// first, and a scheme may not have gathered the norm's parameters by then. What the norm's own
// backward reads is handed back through the workspace.
#pragma once

#include "training/language/branch.h"

namespace tessera::language {

class BlockInput {
 public:
  BlockInput(const Shape& shape, const RepeatedNorm& norm)
      : shape_(shape), norm_(norm), rows_{shape.tokens(), shape.width, norm.centred} {}

  struct Saved {
    kernels::Array input;
    kernels::Array normal;  // the rest only where the norm is repeated
    float *weight = nullptr, *bias = nullptr;
  };
  /// `again`: what lives in one pass alone.
  Saved take(Arena& kept, Arena& again) const;

  /// Forward: of what the workspace has.
  void keep(const Call& call, const Branch& branch, const Saved& saved) const;
  /// Backward, before the input is read.
  void restore(const Saved& saved) const;
  /// Backward, before the norm's.
  void hand_back(const Call& call, const Saved& saved) const;

 private:
  std::int64_t numel() const { return shape_.tokens() * shape_.width; }

  const Shape& shape_;
  const RepeatedNorm norm_;
  const kernels::NormShape rows_;
};

}  // namespace tessera::language
