// SPDX-License-Identifier: Apache-2.0
// What of a block's modules is not kept from forward to backward, and what backward does for that.
//
// The idea: an attention or an MLP is the matrices that share its input, what lies between, and one
// last matrix. Everything but the last product can be computed again from what is kept before it.
#pragma once

#include <vector>

#include "tessera/model.h"
#include "tessera/recompute.h"

namespace tessera {

/// The matrices of a module, as ModuleCost::linears lists them; adapters come after them.
struct BlockPart {
  enum class Kind { other, attention, mlp };
  Kind kind = Kind::other;
  std::size_t firsts = 0;  // matrices that multiply its input; the one behind them ends it
  bool gated = false;      // an MLP whose activation is multiplied with a gate
};
BlockPart block_part(const ModuleCost& cost);

struct Recomputed {
  double bytes = 0;                   // per token, that are not kept
  ModuleCost again = {.kernels = 0};  // of forward, that backward repeats
};
/// REQUIRES: costs as the stack has them that `kept` describes.
Recomputed recomputed(const ModuleCost& cost, const Recompute& what, const KeptActivations& kept);

/// Bytes per token of inputs that are kept for the gradients of matrices alone which are frozen.
/// `trained`: by linear (FrozenShare::linears).
double unneeded_inputs(const ModuleCost& cost, const std::vector<bool>& trained,
                       const KeptActivations& kept);

/// Fails: not_supported, naming what of `what` no module of the model has.
Status check_recompute(const Model& model, const Recompute& what);

}  // namespace tessera
