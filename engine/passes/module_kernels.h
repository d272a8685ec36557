// SPDX-License-Identifier: Apache-2.0
// Which kernels a module's pass consists of, from the shapes that its model names.
#pragma once

#include "tessera/engine.h"

namespace tessera {

/// Adds to `out` the matmuls and the attention of one pass over `batch` sequences. Backward has two
/// matmuls for every one of forward: of the gradients of the input and, if it is `trained` (by
/// linear), of the weight.
void add_kernels(ComputeCost& out, const ModuleCost& module, ModuleWork::Pass pass,
                 std::int64_t batch, std::int64_t sequence_length,
                 const std::vector<bool>& trained);

/// `cost` becomes that of both. Attention keeps its own shape, its FLOPs are added.
void add_cost(ComputeCost& cost, const ComputeCost& other);

/// A module that ends in a loss (ModuleCost::logits), as the layer that makes logits and what
/// becomes of them.
struct LossParts {
  ModuleCost layer, loss;
};
LossParts loss_parts(const ModuleCost& module);

/// Bytes per sample that ActivationCheckpointing::operators keeps: the outputs of attention and of
/// every second matmul, as far as the module's backward needs them.
Polynomial kept_operators(const ModuleCost& module);

/// Takes those kernels out of a recomputation that has add_kernels' forward ones, and their FLOPs.
void skip_kept_operators(ComputeCost& cost);

}  // namespace tessera
