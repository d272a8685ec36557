// SPDX-License-Identifier: Apache-2.0
// The files of a training run: checkpoints that it saves and goes on from, weights it begins with
// and leaves behind.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "tessera/checkpoint.h"
#include "tessera/trainer.h"

namespace tessera::cli {

struct TrainFileOptions {
  std::string save;             // folder of checkpoints
  std::int64_t save_every = 0;  // 0: only the last step
  std::int32_t keep = 2;
  std::string resume;
  std::string load;
  std::string export_to;
};

void add_train_file_options(CLI::App& command, TrainFileOptions& options);
/// Fails: invalid_argument, if options contradict each other.
Status check(const TrainFileOptions& options);

class TrainFiles {
 public:
  /// Fills the trainer from --resume or --load. Both must outlive it. `asynchronous`: training goes
  /// on while a checkpoint is written.
  /// Fails: what load_checkpoint, import_weights and Trainer::resume fail with.
  static Result<TrainFiles> begin(const TrainFileOptions& options, Trainer& trainer,
                                  bool asynchronous);

  /// After each step. Fails: as Checkpointer::save.
  Status step_done();
  /// Saves the last step, exports, and waits until everything is written.
  Status finish();

 private:
  TrainFiles(const TrainFileOptions& options, Trainer& trainer)
      : options_(options), trainer_(trainer) {}
  Status save();

  const TrainFileOptions& options_;
  Trainer& trainer_;
  std::unique_ptr<Checkpointer> checkpoints_;
  std::int64_t saved_step_ = -1;
};

}  // namespace tessera::cli
