// SPDX-License-Identifier: Apache-2.0
// The files of a training run: checkpoints that it saves and goes on from, weights it begins with
// and leaves behind.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "cli/train/agreement.h"
#include "cli/train/export_folder.h"
#include "tessera/checkpoint.h"
#include "tessera/lora.h"
#include "tessera/trainer.h"

namespace tessera::cli {

struct TrainFileOptions {
  std::string save;             // folder of checkpoints
  std::int64_t save_every = 0;  // 0: only the last step
  std::int32_t keep = 2;
  std::string resume;  // "auto": the newest of `save`, if there is one
  bool resume_anyway = false;
  std::string load;
  std::string export_to;
  std::string export_dtype = "auto";
  std::string export_adapter;  // folder
};

void add_train_file_options(CLI::App& command, TrainFileOptions& options);
/// Fails: invalid_argument, if options contradict each other.
Status check(const TrainFileOptions& options);
/// The checkpoint that --resume means, "" if none. Fails: io_error.
Result<std::string> checkpoint_to_resume(const TrainFileOptions& options);

/// What files hold, and how they are written.
struct TrainFilesContext {
  const Model& model;
  const std::optional<LoraOptions>& lora;  // of the model's adapters
  std::int64_t steps;                      // of the whole run
  bool asynchronous;                       // training goes on while a checkpoint is written
  bool prints;                             // warnings, on rank 0
  std::string model_path, tokenizer;       // that --export copies into a folder
  Facts numeric;                           // numeric_facts, kept in checkpoints
};

class TrainFiles {
 public:
  /// Fills the trainer from --resume or --load. All arguments must outlive it.
  /// Fails: what load_checkpoint, import_weights and Trainer::resume fail with; invalid_argument,
  /// if
  /// --save has a later checkpoint than the first that is to be saved.
  static Result<TrainFiles> begin(const TrainFileOptions& options, Trainer& trainer,
                                  const TrainFilesContext& context);

  /// The things that each rank has read from files of its own, to be compared.
  Facts facts(const Trainer& trainer) const;
  /// After each step. Files that cannot be written are a warning, which rank 0 prints: training
  /// goes on. Fails: what Checkpointer::save fails with besides.
  Status step_done();
  /// Saves the last step of a run that ends early. Fails: as Checkpointer::save.
  Status stop();
  /// Saves the last step, exports, and waits until everything is written. Fails: as
  /// Checkpointer::save and export_weights, but tries both.
  Status finish();

  /// "the last checkpoint is run/step-000012: go on with --resume run", or that there is none.
  std::string way_back() const;

 private:
  TrainFiles(const TrainFileOptions& options, Trainer& trainer, const TrainFilesContext& context)
      : options_(options), trainer_(trainer), context_(context) {}
  Status check_save() const;
  Status save();
  Status resume(const std::string& from);
  Status check_adapters(const CheckpointInfo& info) const;
  void begin_after(const CheckpointInfo& info, const std::string& format);
  Status export_all() const;
  DType export_dtype() const;
  std::string weights_file() const { return exported_file(options_.export_to); }

  const TrainFileOptions& options_;
  Trainer& trainer_;
  std::unique_ptr<Checkpointer> checkpoints_;
  std::int64_t saved_step_ = -1;
  const TrainFilesContext context_;
};

}  // namespace tessera::cli
