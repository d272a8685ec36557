// SPDX-License-Identifier: Apache-2.0
// What all files of DeepSpeed say, or cannot say, of a run.
#pragma once

#include <cstdint>

#include "engine/checkpoint/manifest.h"
#include "exchange/checkpoints/object_pickle.h"

namespace tessera::exchange {

/// The version whose files are written.
inline constexpr const char* deepspeed_version = "0.19.8";

/// Whether DeepSpeed's one number of steps, `steps`, says how often the parameter was stepped.
inline bool says_steps_of(const CheckpointParameter& parameter, std::int64_t steps) {
  return parameter.steps >= 1 && parameter.steps == steps && steps <= 2'000'000'000;
}

/// The last entries of a dictionary of model states.
inline void write_run_facts(ObjectPickle& pickle, std::int64_t ranks, std::int64_t steps) {
  pickle.member("dp_world_size", ranks);
  pickle.member("mp_world_size", 1);
  pickle.member("global_steps", steps);
  pickle.member("skipped_steps", 0);
  pickle.member("ds_version", deepspeed_version);
}

}  // namespace tessera::exchange
