// SPDX-License-Identifier: Apache-2.0
// The options that describe a training step, shared by `simulate` and `ops`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options/scheme_options.h"
#include "tessera/training.h"

namespace tessera::cli {

struct EngineOptions {
  std::string model_path;
  SchemeOptions scheme;
  std::string deepspeed;  // a ds_config.json; empty: none
  std::int64_t batch = 1;
  std::int64_t sequence_length = 0;  // 0: the model's longest, at most 8192
  std::int32_t accumulation = 1;
  std::string passes;  // instead of accumulation
  bool no_sync = false;
  float max_grad_norm = 0;
  std::string checkpointing = "none";
  std::int32_t checkpoint_every = 1;
};

/// What the options mean for one model.
struct Training {
  Model model;
  Scheme scheme;
  TrainingOptions training;
  std::vector<std::string> warnings;
};

void add_engine_options(CLI::App& command, EngineOptions& options);
/// --passes, where nothing needs real numbers.
void add_passes_option(CLI::App& command, EngineOptions& options);

/// A sentence, if sequences are longer than the model's attention looks back.
std::vector<std::string> window_warnings(const std::string& model_path, const Model& model,
                                         std::int64_t sequence_length);

/// Reads the model, and DeepSpeed's configuration for so many ranks. Fails: whatever load_model
/// and load_deepspeed_config do; invalid_argument, naming the option.
Result<Training> resolve(const EngineOptions& options, Rank ranks);

}  // namespace tessera::cli
