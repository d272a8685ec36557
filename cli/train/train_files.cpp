// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/train/run_facts.h"
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
  file("--resume", o.resume,
       "Goes on from a checkpoint, or the newest in a folder; auto: from the newest of --save, or "
       "from the beginning if there is none");
  command
      .add_flag("--resume-anyway", o.resume_anyway,
                "Goes on with other data, another seed or another sequence length")
      ->group(group);
  file("--load", o.load, "safetensors file with the weights to begin with");
  file("--export", o.export_to, "safetensors file that gets the trained weights");
}

Status check(const TrainFileOptions& o) {
  if (!o.resume.empty() && !o.load.empty()) {
    return Status(Code::invalid_argument,
                  "--load and --resume both say what the weights are: leave one out");
  }
  if (o.resume == "auto" && o.save.empty()) {
    return Status(Code::invalid_argument,
                  "--resume auto: name the folder of the checkpoints with --save");
  }
  if (o.save.empty() && o.save_every > 0) {
    return Status(Code::invalid_argument, "--save-every: name the folder with --save");
  }
  return {};
}

namespace {

// A folder that is missing after hours of training would cost the weights.
Status check_export(const std::string& path) {
  if (path.empty()) return {};
  const std::filesystem::path folder =
      std::filesystem::absolute(std::filesystem::path(path)).parent_path();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return Status(Code::io_error, fmt::format("--export {}: is a folder: name a file", path));
  }
  if (!std::filesystem::is_directory(folder, error)) {
    return Status(Code::io_error, fmt::format("--export {}: there is no folder {}: make it first",
                                              path, folder.string()));
  }
  if (::access(folder.c_str(), W_OK) == 0) return {};
  return Status(Code::io_error, fmt::format("--export {}: the folder cannot be written to: {}",
                                            path, std::strerror(errno)));
}

// The checkpoint that --resume means, or "".
Result<std::string> to_resume(const TrainFileOptions& options) {
  if (options.resume != "auto") return options.resume;
  TESSERA_ASSIGN(const auto checkpoints, list_checkpoints(options.save));
  return checkpoints.empty() ? std::string() : options.save;
}

}  // namespace

Result<TrainFiles> TrainFiles::begin(const TrainFileOptions& options, Trainer& trainer,
                                     bool asynchronous, bool prints) {
  TrainFiles files(options, trainer, prints);
  if (!options.load.empty()) TESSERA_TRY(import_weights(trainer.engine(), options.load));
  TESSERA_TRY(check_export(options.export_to));
  TESSERA_ASSIGN(const std::string resume, to_resume(options));
  if (!resume.empty()) {
    TESSERA_ASSIGN(const CheckpointInfo info, load_checkpoint(trainer.engine(), resume));
    TESSERA_TRY(trainer.resume(info.blobs, options.resume_anyway));
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

Facts TrainFiles::facts(const Trainer& trainer) const {
  Facts facts;
  for (const auto& [name, text] : trainer.state())
    facts.emplace_back("the place of the " + name, text);
  if (!options_.load.empty()) facts.emplace_back("--load", size_fact(options_.load));
  return facts;
}

Status TrainFiles::save() {
  saved_step_ = trainer_.steps_done();
  return checkpoints_->save(saved_step_, trainer_.state());
}

Status TrainFiles::step_done() {
  if (!checkpoints_) return {};
  const bool due = options_.save_every > 0 && trainer_.steps_done() % options_.save_every == 0;
  const Status kept = due ? save() : checkpoints_->poll();
  if (kept.code() != Code::io_error) return kept;
  saved_step_ = -1;
  if (prints_) {
    print_warnings({fmt::format("{}; training goes on after step {}, {}", kept.message(),
                                trainer_.steps_done(), way_back())});
  }
  return {};
}

std::string TrainFiles::way_back() const {
  if (options_.save.empty()) return "there is no checkpoint, as there is no --save";
  const auto newest = latest_checkpoint(options_.save);
  if (!newest.ok()) return fmt::format("there is no checkpoint in {}", options_.save);
  return fmt::format("the last checkpoint is {}: go on with --resume {}", *newest, options_.save);
}

Status TrainFiles::stop() {
  if (!checkpoints_) return {};
  if (saved_step_ != trainer_.steps_done()) TESSERA_TRY(save());
  return checkpoints_->finish();
}

Status TrainFiles::finish() {
  const Status saved = stop();
  if (!saved.ok() && saved.code() != Code::io_error) return saved;
  if (options_.export_to.empty()) return saved;
  const Status exported = export_weights(trainer_.engine(), options_.export_to, {});
  return saved.ok() ? exported : saved;
}

}  // namespace tessera::cli
