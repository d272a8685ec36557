// SPDX-License-Identifier: Apache-2.0
// The options that describe a training step, shared by `simulate` and `ops`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/scheme_options.h"
#include "tessera/deepspeed.h"
#include "tessera/lora.h"
#include "tessera/training.h"

namespace tessera::cli {

struct EngineOptions {
  std::string model_path;
  SchemeOptions scheme;
  std::string deepspeed;  // a ds_config.json; empty: none
  std::string lora;       // as parse_lora takes it; empty: none
  GivenFlags training;    // those of tessera/training.h
  bool real = false;      // the command computes with real numbers
};

/// What the options mean for one model.
struct Training {
  Model model;
  Scheme scheme;
  TrainingOptions training;
  std::vector<std::string> warnings;
  std::optional<DeepSpeedConfig> deepspeed;  // of --deepspeed
  std::optional<LoraOptions> lora;           // of --lora, which the model has
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
