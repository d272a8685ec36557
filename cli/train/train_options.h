// SPDX-License-Identifier: Apache-2.0
// The options of `tessera train`, and what they mean.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/engine_options.h"
#include "cli/options/recording_options.h"
#include "cli/options/runtime_options.h"
#include "cli/train/data_options.h"
#include "cli/train/train_files.h"
#include "cli/train/train_log.h"
#include "tessera/trainer.h"

namespace tessera::cli {

struct ValidationArguments {
  std::string file;
  double fraction = 0;       // of --data, instead
  std::int64_t every = 100;  // steps; 0: only after the last
  std::int64_t batches = 16;

  bool wanted() const { return !file.empty() || fraction > 0; }
};

struct TrainArguments {
  const CLI::App* command = nullptr;  // that was parsed
  EngineOptions engine;
  std::string dtype = "float32";
  std::string matmul_dtype;  // empty: dtype
  std::optional<double> dropout;
  bool no_dropout = false;
  std::optional<double> loss_scale;
  std::optional<std::int32_t> loss_scale_interval;
  DataArguments data;
  ValidationArguments validation;
  std::int64_t steps = 1000;
  double learning_rate = 1e-3;
  std::string schedule = "cosine";
  std::int64_t warmup = 0;
  std::int64_t decay = 0;
  double least_learning_rate = 0;
  double weight_decay = 0;
  std::vector<double> betas = {0.9, 0.95};
  double epsilon = 1e-8;
  std::uint64_t seed = 0;
  std::int32_t threads = 0;
  RuntimeOptions runtime;
  TrainFileOptions files;
  std::string trace;
  RecordingOptions recording;
  double peak_flops = 0;
  LogFiles log;
  std::int64_t log_every = 1;
  bool quiet = false;
};

void add_train_options(CLI::App& command, TrainArguments& arguments);

/// The parts of a run on a number of ranks.
struct TrainRun {
  Model model;  // its parameters in float32: the masters
  TrainerOptions options;
  std::optional<LoraOptions> lora;  // of the model's adapters
  std::vector<std::string> warnings;
};

/// Fails: what `resolve` fails with; invalid_argument, naming the option.
Result<TrainRun> resolve_train(const TrainArguments& arguments, Rank ranks);

/// The data for training and validation.
struct TrainData {
  Corpus corpus;
  std::optional<Corpus> validation;  // a file of its own

  /// Says so to a trainer, which must not outlive it.
  void apply(const ValidationArguments& arguments, TrainerOptions& options) const;
};

/// The tokens for `model`. Fails: as Corpus::open; invalid_argument, if two options say what to
/// validate on.
Result<TrainData> open_data(const TrainArguments& arguments, const Model& model);

}  // namespace tessera::cli
