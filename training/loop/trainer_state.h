// SPDX-License-Identifier: Apache-2.0
// The progress of a training run, which a checkpoint keeps as one JSON object.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/grad_scaler.h"
#include "tessera/sampler.h"
#include "tessera/scheme.h"

namespace tessera {

struct TrainerPlace {
  std::int64_t step = 0;  // steps that are done
  SamplerState sampler;   // the first sample of the next step
  std::uint64_t seed = 0;
  // The data of the run; nothing of them in checkpoints of 0.1.
  std::int64_t sequence_length = 0;
  std::int64_t tokens = 0;
  std::uint64_t fingerprint = 0;               // Corpus::fingerprint
  std::optional<LossScale::State> loss_scale;  // only float16
  std::int64_t skipped_steps = 0;              // their gradients were no finite numbers
};

std::string to_json(const TrainerPlace& place);
/// Fails: corrupt, naming the key.
Result<TrainerPlace> trainer_place(const std::string& json);
/// A run goes on where it was only if samples have the same order: the same seed, tokens and
/// length. A sentence for each that is another one, with both values. `source` names the data.
std::vector<std::string> differences(const TrainerPlace& saved, const TrainerPlace& now,
                                     const std::string& source);
/// What a run is refused with that differs and was not told to go on anyway.
Status refused(const std::vector<std::string>& others);
/// Ranks that train apart have no loss, norm or checkpoint in common. Fails: invalid_argument, for
/// process groups smaller than all ranks.
Status check_one_model(const Scheme& scheme, Rank ranks);

}  // namespace tessera
