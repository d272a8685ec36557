// SPDX-License-Identifier: Apache-2.0
// The loss of a language model in double precision, as plainly as it can be written.
#pragma once

#include <vector>

#include "tessera/model.h"

namespace tessera::test {

using Values = std::vector<std::vector<double>>;  // by ParameterId

/// What the losses' dropout follows from.
inline constexpr std::uint64_t dropout_seed = 11;

/// Mean cross entropy of sequences of length + 1 tokens each, in the first step of training.
double reference_loss(const Model& model, const Values& parameters,
                      const std::vector<std::int32_t>& tokens, std::int64_t batch,
                      std::int64_t length);

/// The logits after the last of `tokens`, without dropout.
std::vector<double> reference_logits(const Model& model, const Values& parameters,
                                     const std::vector<std::int32_t>& tokens);

}  // namespace tessera::test
