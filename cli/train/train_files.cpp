// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/train/export_folder.h"
#include "cli/train/resumed_run.h"
#include "engine/text/set_aside.h"
#include "tessera/exchange/checkpoints.h"
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
  file("--load", o.load,
       "safetensors file with the weights to begin with; beside --resume auto unless there is a "
       "checkpoint");
  file(
      "--export", o.export_to,
      "safetensors file that gets the trained weights, of --lora merged into the model's own; or a "
      "folder, with all that from_pretrained reads");
  command
      .add_option("--export-dtype", o.export_dtype,
                  "Of the exported weights; auto: in a folder as config.json says, else float32")
      ->check(CLI::IsMember({"auto", "bfloat16", "float16", "float32"}))
      ->group(group);
  file("--export-adapter", o.export_adapter,
       "Folder that gets what --lora has trained, as PEFT reads it");
}

Status check(const TrainFileOptions& o) {
  if (!o.resume.empty() && o.resume != "auto" && !o.load.empty()) {
    return Status(Code::invalid_argument,
                  "--load and --resume both say what the weights are: leave one out, or give "
                  "--resume auto, which loads them at the first start alone");
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

constexpr const char* lora_blob = "lora";  // of a checkpoint: to_text(LoraOptions)

// A folder that is missing after hours of training would cost the weights.
Status check_export(const char* option, const std::string& path) {
  if (path.empty()) return {};
  const std::filesystem::path folder =
      std::filesystem::absolute(std::filesystem::path(path)).parent_path();
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return Status(Code::io_error, fmt::format("{} {}: there is no folder {}: make it first", option,
                                              path, folder.string()));
  }
  if (::access(folder.c_str(), W_OK) != 0) {
    return Status(Code::io_error, fmt::format("{} {}: the folder cannot be written to: {}", option,
                                              path, std::strerror(errno)));
  }
  return {};
}

}  // namespace

Result<std::string> checkpoint_to_resume(const TrainFileOptions& options) {
  if (options.resume != "auto") return options.resume;
  TESSERA_ASSIGN(const auto checkpoints, list_checkpoints(options.save));
  return checkpoints.empty() ? std::string() : options.save;
}

void TrainFiles::begin_after(const CheckpointInfo& info, const std::string& format) {
  trainer_.begin_after(info.step);
  saved_step_ = info.step;
  if (!context_.prints) return;
  print_warnings(
      {fmt::format("{}: {} said nothing of samples, learning rate and loss scale: "
                   "samples begin with the first, the rest is this run's after step {}",
                   info.path, format, info.step)});
}

Status TrainFiles::check_adapters(const CheckpointInfo& info) const {
  const auto found = info.blobs.find(lora_blob);
  const std::string then = found == info.blobs.end() ? "none" : found->second;
  const std::string now = context_.lora ? to_text(*context_.lora) : "none";
  if (then == now) return {};
  const std::string other = fmt::format("the run to resume has --lora {}, this one {}", then, now);
  if (!options_.resume_anyway) {
    return Status(Code::invalid_argument,
                  other + ": use the same, or resume anyway if it is meant");
  }
  if (context_.prints) print_warnings({other});
  return {};
}

Status TrainFiles::resume(const std::string& from) {
  TESSERA_ASSIGN(const CheckpointInfo info, load_checkpoint(trainer_.engine(), from));
  const auto imported = info.blobs.find(exchange::imported_blob);
  if (imported != info.blobs.end()) {
    begin_after(info, imported->second);
    return {};
  }
  TESSERA_TRY(check_adapters(info));
  TESSERA_TRY(trainer_.resume(info.blobs, options_.resume_anyway));
  saved_step_ = trainer_.steps_done();
  const auto facts = info.blobs.find(facts_blob);  // missing before 0.3
  if (facts == info.blobs.end() || !context_.prints) return {};
  const std::string changes = changes_since(info.path, facts->second, context_.numeric);
  if (!changes.empty()) print_warnings({changes});
  return {};
}

Result<TrainFiles> TrainFiles::begin(const TrainFileOptions& options, Trainer& trainer,
                                     const TrainFilesContext& context) {
  TrainFiles files(options, trainer, context);
  TESSERA_ASSIGN(const std::string from, checkpoint_to_resume(options));
  if (!options.load.empty() && from.empty()) {
    TESSERA_TRY(
        import_weights(trainer.engine(), options.load, {.adapters = trainer.initial_values()}));
  }
  if (!options.export_to.empty() && names_folder(options.export_to)) {
    TESSERA_TRY(make_export_folder(options.export_to, context.model_path));
    if (context.prints) {
      print_warnings(left_beside_weights(options.export_to, context.model_path, context.tokenizer));
    }
  }
  TESSERA_TRY(check_export("--export", files.weights_file()));
  TESSERA_TRY(check_export("--export-adapter", options.export_adapter));
  std::error_code error;
  if (std::filesystem::exists(options.export_adapter, error) &&
      !std::filesystem::is_directory(options.export_adapter, error)) {
    return Status(Code::invalid_argument,
                  fmt::format("--export-adapter {}: is no folder: name one, or one that is not "
                              "there yet",
                              options.export_adapter));
  }
  if (!options.resume.empty() && context.prints) {
    print_warnings(passed_warnings(options.resume == "auto" ? options.save : options.resume));
  }
  if (!from.empty()) TESSERA_TRY(files.resume(from));
  if (options.save.empty()) return files;
  TESSERA_TRY(files.check_save());
  TESSERA_ASSIGN(files.checkpoints_,
                 Checkpointer::create(trainer.engine(), {.directory = options.save,
                                                         .scheme = std::string(trainer.scheme()),
                                                         .keep = options.keep,
                                                         .asynchronous = context.asynchronous}));
  return files;
}

// A checkpoint is never made behind a later one, which a resumed run would take instead. Found at
// the first save, it would cost the steps until then.
Status TrainFiles::check_save() const {
  const auto newest = latest_checkpoint(options_.save);
  if (!newest.ok()) return {};
  TESSERA_ASSIGN(const CheckpointInfo info, read_checkpoint(*newest));
  const std::int64_t done = trainer_.steps_done(), every = options_.save_every;
  if (done >= context_.steps) return {};
  const std::int64_t first =
      every > 0 ? std::min(context_.steps, (done / every + 1) * every) : context_.steps;
  if (info.step <= first) return {};
  return Status(Code::invalid_argument,
                fmt::format("--save {}: has a checkpoint of step {}, later than the {} that is to "
                            "be saved first: give another folder, go on from it with --resume {}, "
                            "or remove what is not wanted any more",
                            options_.save, info.step, first, options_.save));
}

Facts TrainFiles::facts(const Trainer& trainer) const {
  Facts facts;
  for (const auto& [name, text] : trainer.state())
    facts.emplace_back("the place of the " + name, text);
  return facts;
}

Status TrainFiles::save() {
  saved_step_ = trainer_.steps_done();
  CheckpointBlobs blobs = trainer_.state();
  if (context_.lora) blobs[lora_blob] = to_text(*context_.lora);
  blobs[facts_blob] = facts_text(context_.numeric);
  return checkpoints_->save(saved_step_, blobs);
}

Status TrainFiles::step_done() {
  if (!checkpoints_) return {};
  const bool due = options_.save_every > 0 && trainer_.steps_done() % options_.save_every == 0;
  const Status kept = due ? save() : checkpoints_->poll();
  if (kept.code() != Code::io_error) return kept;
  saved_step_ = -1;
  if (context_.prints) {
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
  const bool folder = context_.prints && names_folder(options_.export_to);
  std::optional<SetAside> config;
  if (folder && !keeps_config(options_.export_to, context_.model_path, context_.tokenizer)) {
    config.emplace((std::filesystem::path(options_.export_to) / "config.json").string());
  }
  Status exported = export_all();
  if (exported.ok() && config) config->replaced();
  if (exported.ok() && folder) {
    exported = copy_beside_weights(options_.export_to, context_.model_path, context_.tokenizer);
  }
  return saved.ok() ? exported : saved;
}

// A folder is read by whoever trusts its config.json.
DType TrainFiles::export_dtype() const {
  if (options_.export_dtype != "auto") return exported_dtypes.at(options_.export_dtype);
  const DType published = context_.model.dtype;
  const bool half = published == DType::bfloat16 || published == DType::float16;
  return half && names_folder(options_.export_to) ? published : DType::float32;
}

// Adapters are merged and cut out of a file of all weights, which goes when that is done.
Status TrainFiles::export_all() const {
  const bool whole = !options_.export_to.empty();
  if (!context_.lora) {
    if (!whole) return {};
    return export_weights(trainer_.engine(), weights_file(), {.dtype = export_dtype()});
  }
  if (!whole && options_.export_adapter.empty()) return {};
  const std::string all = (whole ? weights_file() : options_.export_adapter) + ".all";
  TESSERA_TRY(export_weights(trainer_.engine(), all, {}));
  if (!context_.prints) return {};
  Status done;
  if (whole) {
    done = merge_lora(all, context_.model, *context_.lora, weights_file(), export_dtype());
  }
  if (done.ok() && !options_.export_adapter.empty()) {
    done = export_lora(all, context_.model, *context_.lora, options_.export_adapter);
  }
  std::error_code error;
  std::filesystem::remove(all, error);
  return done;
}

}  // namespace tessera::cli
