// SPDX-License-Identifier: Apache-2.0
// Which tensor of a checkpoint is which of a model's parameters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "exchange/checkpoints/foreign_checkpoint.h"
#include "tessera/model.h"

namespace tessera::exchange {

/// Names in the checkpoint; "" where it has no such tensor.
struct NamedTensors {
  std::string value, exp_avg, exp_avg_sq, step;
};

/// By ParameterId. Fails: invalid_argument (a parameter without its tensor, of another shape or
/// with half of its state; several prefixes fit), naming it.
Result<std::vector<NamedTensors>> match_parameters(const ForeignCheckpoint& checkpoint,
                                                   const Model& model, const std::string& source,
                                                   const std::optional<std::string>& prefix);

}  // namespace tessera::exchange
