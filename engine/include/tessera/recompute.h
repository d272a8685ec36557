// SPDX-License-Identifier: Apache-2.0
// Which activations inside of blocks backward computes again instead of keeping them: less than
// checkpointing whole blocks, which keeps their inputs alone.
//
//   options.recompute.norm = options.recompute.ffn = true;   // as LLM.Q's --recompute-norm, -ffn
#pragma once

#include <string>

namespace tessera {

/// Each is computed again from what is kept before it.
struct Recompute {
  bool norm = false;        // what normalisations return
  bool activation = false;  // what the last matrix of an MLP multiplies
  bool ffn = false;         // an MLP up to its last matrix, with its normalisation
  bool qkv = false;         // queries, keys and values
  bool attention = false;   // attention up to its last matrix, with its normalisation

  bool any() const { return norm || activation || ffn || qkv || attention; }
};

/// "norm+ffn"; empty: nothing.
std::string to_text(const Recompute& recompute);

/// What a stack keeps of a block, and so what is spared by computing it again.
struct KeptActivations {
  double input_bytes = 2;  // of an element of what matrices multiply; 1: in 8 bit alone
  bool norms = true;       // what normalisations return; or backward computes it again anyway
  bool gates = true;       // what an activation function returns, beside its product with a gate
  double elementwise = 1;  // bytes moved beside those of well fused kernels
};

}  // namespace tessera
