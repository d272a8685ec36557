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
  std::string deepspeed;              // a ds_config.json; empty: none
  std::string lora;                   // as parse_lora takes it; empty: none
  GivenFlags training;                // those of tessera/training.h
  bool real = false;                  // the command computes with real numbers
  const CLI::App* command = nullptr;  // that the options were added to
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

/// What the file at `model_path` says and does not act: sentences.
std::vector<std::string> model_warnings(const std::string& model_path, const Model& model);

/// Fails: invalid_argument, where the model takes fewer `tokens` in a sequence.
Status check_sequence_length(std::int64_t tokens, const Model& model);

/// A sequence length of 0 becomes the model's longest, at most 8192 tokens. Fails:
/// invalid_argument, where the model takes no such sequences or no rank so many at once.
Status settle_sequences(TrainingOptions& training, const Model& model);

/// Reads the model, and DeepSpeed's configuration for so many ranks. Fails: whatever load_model
/// and load_deepspeed_config do; invalid_argument, naming the option.
Result<Training> resolve(const EngineOptions& options, Rank ranks);

}  // namespace tessera::cli
