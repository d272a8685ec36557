// SPDX-License-Identifier: Apache-2.0
// What a run's data lose, or do not show, without being wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/train/train_options.h"

namespace tessera::cli {

/// Sentences: documents that are cut to `length` tokens or left out, files that the run never
/// draws, validation on what is trained.
std::vector<std::string> data_warnings(const TrainArguments& arguments, const TrainData& data,
                                       const Trainer& trainer, std::int64_t length);

}  // namespace tessera::cli
