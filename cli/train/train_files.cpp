// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_files.h"

#include <fmt/format.h>

#include "cli/options/checks.h"
#include "tessera/weights.h"

namespace tessera::cli {

void add_train_file_options(CLI::App& command, TrainFileOptions& o) {
  const char* group = "Files";
  const auto file = [&](const char* name, std::string& value, const char* text) {
    command.add_option(name, value, text)->default_str("")->group(group);
  };
  file("--save", o.save, "Folder that gets a checkpoint after the last step");
  command.add_option("--save-every", o.save_every, "Steps between checkpoints; 0: only the last")
      ->check(within(0, 1e9))
      ->group(group);
  command.add_option("--keep", o.keep, "How many checkpoints stay; 0: all")
      ->check(within(0, 1e6))
      ->group(group);
  file("--resume", o.resume, "Goes on from a checkpoint, or the newest in a folder");
  file("--load", o.load, "safetensors file with the weights to begin with");
  file("--export", o.export_to, "safetensors file that gets the trained weights");
}

Status check(const TrainFileOptions& o) {
  if (!o.resume.empty() && !o.load.empty()) {
    return Status(Code::invalid_argument,
                  "--load and --resume both say what the weights are: leave one out");
  }
  if (o.save.empty() && o.save_every > 0) {
    return Status(Code::invalid_argument, "--save-every: name the folder with --save");
  }
  return {};
}

Result<TrainFiles> TrainFiles::begin(const TrainFileOptions& options, Trainer& trainer,
                                     bool asynchronous) {
  TrainFiles files(options, trainer);
  if (!options.load.empty()) TESSERA_TRY(import_weights(trainer.engine(), options.load));
  if (!options.resume.empty()) {
    TESSERA_ASSIGN(const CheckpointInfo info, load_checkpoint(trainer.engine(), options.resume));
    TESSERA_TRY(trainer.resume(info.blobs));
    files.saved_step_ = trainer.steps_done();
  }
  if (options.save.empty()) return files;
  TESSERA_ASSIGN(files.checkpoints_,
                 Checkpointer::create(trainer.engine(), {.directory = options.save,
                                                         .scheme = std::string(trainer.scheme()),
                                                         .keep = options.keep,
                                                         .asynchronous = asynchronous}));
  return files;
}

Status TrainFiles::save() {
  saved_step_ = trainer_.steps_done();
  return checkpoints_->save(saved_step_, trainer_.state());
}

Status TrainFiles::step_done() {
  if (!checkpoints_) return {};
  const bool due = options_.save_every > 0 && trainer_.steps_done() % options_.save_every == 0;
  return due ? save() : checkpoints_->poll();
}

Status TrainFiles::finish() {
  if (checkpoints_ && saved_step_ != trainer_.steps_done()) TESSERA_TRY(save());
  if (checkpoints_) TESSERA_TRY(checkpoints_->finish());
  if (options_.export_to.empty()) return {};
  return export_weights(trainer_.engine(), options_.export_to, {});
}

}  // namespace tessera::cli
