// SPDX-License-Identifier: Apache-2.0
// How far a training run is, as a checkpoint keeps it: one JSON object.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/sampler.h"

namespace tessera {

struct TrainerPlace {
  std::int64_t step = 0;  // done
  SamplerState sampler;   // of the next step's first sample
  std::uint64_t seed = 0;
};

std::string to_json(const TrainerPlace& place);
/// Fails: corrupt, naming the key.
Result<TrainerPlace> trainer_place(const std::string& json);

}  // namespace tessera
