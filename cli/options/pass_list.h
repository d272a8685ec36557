// SPDX-License-Identifier: Apache-2.0
// The passes of a step, as users write them: "eval,train:short,train,step".
#pragma once

#include <string>
#include <vector>

#include "tessera/training.h"

namespace tessera::cli {

/// Empty for an empty text. Fails: invalid_argument, naming --passes and the word, or the graph
/// that `model` has not.
Result<std::vector<TrainingPass>> parse_passes(const std::string& text, const Model& model);

}  // namespace tessera::cli
