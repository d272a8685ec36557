// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's own configuration: a ds_config.json becomes a scheme and the settings of a step.
//
//   TESSERA_ASSIGN(const DeepSpeedConfig config, load_deepspeed_config("ds_config.json", 64));
//   TESSERA_ASSIGN(auto engine, make_engine(runtime, model, config.scheme));
//
// The idea: defaults, aliases and deprecated forms are those of DeepSpeed, so a file means here
// what it means there. "auto", which Hugging Face's Trainer fills in, counts as not given. A key
// that DeepSpeed does not know is an error that names the nearest one it knows. A key that it knows
// but that changes nothing here is listed in `without_meaning`. What each key does is in
// docs/from-deepspeed.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/offload.h"
#include "tessera/scheme.h"

namespace tessera {

using DeepSpeedOffload = Offload;
using DeepSpeedAio = Aio;

struct DeepSpeedConfig {
  std::int32_t stage = 0;
  /// Stage 0: replicate, 1: zero1, 2: zero2, 3: zero3.
  Scheme scheme;
  std::optional<DType> dtype;               // fp16 or bf16, if one is enabled
  std::optional<std::int64_t> micro_batch;  // sequences per rank and micro-batch
  std::optional<std::int32_t> accumulation;
  std::optional<float> gradient_clipping;
  AdamOptions adam;
  DeepSpeedOffload offload_param;
  DeepSpeedOffload offload_optimizer{.buffer_count = 4};
  DeepSpeedAio aio;
  /// Keys that change nothing here: "zero_optimization.memory_efficient_linear".
  std::vector<std::string> without_meaning;
};

/// Reads a ds_config.json. `ranks` is the number of data-parallel ranks, here all of them; batch
/// sizes must agree with it.
/// Fails: io_error (unreadable file), invalid_argument (not JSON, an unknown key, a value of the
/// wrong type or range, batch sizes that contradict each other), naming file and key.
Result<DeepSpeedConfig> load_deepspeed_config(const std::string& path, Rank ranks);

/// As load_deepspeed_config, from text; `source` names it in messages.
Result<DeepSpeedConfig> parse_deepspeed_config(std::string_view json, const std::string& source,
                                               Rank ranks);

/// The scheme with another dtype of forward and backward.
Scheme with_dtype(const Scheme& scheme, DType dtype);

}  // namespace tessera
