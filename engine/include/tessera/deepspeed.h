// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's own configuration: a ds_config.json becomes a scheme and the settings of a step.
//
//   TESSERA_ASSIGN(const DeepSpeedConfig config, load_deepspeed_config("ds_config.json", 64));
//   TESSERA_ASSIGN(auto engine, make_engine(runtime, model, config.scheme));
//
// The idea: defaults, aliases and deprecated forms are those of DeepSpeed, so a file means here
// what it means there. "auto", which Hugging Face's Trainer fills in, counts as not given; comments
// are allowed. A key acts, or is refused by name, or is in one of the lists of DeepSpeedConfig;
// none is dropped without a word. What each key does is in docs/from-deepspeed.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/grad_scaler.h"
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
  /// As the file spells it; empty: none is given. `adam.states` is what it keeps per element.
  std::string optimizer;
  AdamOptions adam;
  bool learning_rate_given = false;  // adam.learning_rate is the file's
  std::string scheduler;             // its type, "WarmupLR"; empty: none. Nothing follows it
  /// fp16: the scale of the loss. Static: both factors are 1.
  std::optional<LossScaleOptions> loss_scale;
  DeepSpeedOffload offload_param;
  DeepSpeedOffload offload_optimizer{.buffer_count = 4};
  DeepSpeedAio aio;
  /// Keys that change neither time, memory nor numbers here: "steps_per_print".
  std::vector<std::string> without_meaning;
  /// Keys that would have changed what training computes, with what is done instead: "scheduler
  /// (the learning rate is that of --schedule)".
  std::vector<std::string> numbers_differ;
  /// Keys that would have changed time or memory, with what is done instead.
  std::vector<std::string> cost_differs;
  /// Keys that DeepSpeed does not know and does not look at.
  std::vector<std::string> unknown;
  /// Given keys of stage 3 that only the policy compatible obeys.
  std::vector<std::string> only_compatible;

  /// The lists as sentences that begin with `source`. `scheme` is what is run, perhaps with another
  /// policy than a file can say; `real`: with real numbers.
  std::vector<std::string> warnings(const std::string& source, const Scheme& scheme,
                                    bool real) const;
};

/// Reads a ds_config.json. `ranks` is the number of data-parallel ranks, here all of them; batch
/// sizes must agree with it.
/// Fails: io_error (unreadable file), invalid_argument (not JSON, a key twice, an unknown key in a
/// section that DeepSpeed checks, one that is not supported, a value of the wrong type or range,
/// batch sizes that contradict each other), naming file and key.
Result<DeepSpeedConfig> load_deepspeed_config(const std::string& path, Rank ranks);

/// As load_deepspeed_config, from text; `source` names it in messages.
Result<DeepSpeedConfig> parse_deepspeed_config(std::string_view json, const std::string& source,
                                               Rank ranks);

/// The scheme with another dtype of forward and backward.
Scheme with_dtype(const Scheme& scheme, DType dtype);

}  // namespace tessera
