// SPDX-License-Identifier: Apache-2.0
// Values of a model that was never trained.
#pragma once

#include "training/language/plan.h"

namespace tessera::language {

/// See LanguageModel::initial_values.
std::function<float(ParameterId, Numel)> initial_values(const Plan& plan, std::uint64_t seed);

}  // namespace tessera::language
