// SPDX-License-Identifier: Apache-2.0
// Costs of modules that state none, from their classes and the shapes of their parameters.
//
// The idea: a matrix meets every token, whose width is known from the matrix that ran before. What
// shapes do not say (tokens of an expert, places of an image) is not guessed: a sentence names it.
#pragma once

#include <vector>

#include "engine/model/stated_costs.h"

namespace tessera {

/// Gives every module of `model` that runs the costs that `stated` (by ModuleId) has for it, and
/// those that it lacks from shapes. Modules that run as a whole cost what is below them, unless
/// they state it; what a container computes itself is work of the first module in it. Blocks get
/// the bytes that checkpointing keeps. `model.cost_note` says what was not stated, `model.warnings`
/// what was stated of modules that never run.
void add_costs(const std::vector<StatedCosts>& stated, Model& model);

}  // namespace tessera
