// SPDX-License-Identifier: Apache-2.0
#include "cli/train/data_warnings.h"

#include <fmt/format.h>

#include <filesystem>
#include <tuple>

#include "cli/report/table.h"

namespace tessera::cli {
namespace {

std::vector<std::string> document_warnings(const Corpus& corpus, const Trainer& trainer,
                                           std::int64_t length) {
  std::vector<std::string> warnings;
  const auto packed = trainer.packed();
  if (!packed) return warnings;
  const std::string of = fmt::format("of {} documents", with_separators(corpus.documents()));
  if (packed->cut > 0) {
    warnings.push_back(fmt::format(
        "{} {} have more than {} tokens and are cut into pieces that do not see one another: "
        "choose a larger --sequence-length if they should",
        with_separators(packed->cut), of, length));
  }
  if (packed->left_out > 0) {
    warnings.push_back(fmt::format("{} {} have nothing to learn and are left out",
                                   with_separators(packed->left_out), of));
  }
  return warnings;
}

// A loss of what is trained on says nothing of what is not.
std::vector<std::string> validation_warnings(const TrainArguments& arguments,
                                             std::int64_t batches) {
  std::vector<std::string> warnings;
  if (arguments.command->count("--validation-batches") > 0 &&
      arguments.validation.batches > batches) {
    warnings.push_back(fmt::format(
        "--validation-batches {}: there {} {}, of which each counts once",
        arguments.validation.batches, batches == 1 ? "is" : "are", with_separators(batches)));
  }
  for (const std::string& text : arguments.data.files) {
    std::error_code error;
    const std::string& file = arguments.validation.file;
    if (file.empty() || !std::filesystem::equivalent(corpus_file(text).path, file, error)) continue;
    warnings.push_back(
        fmt::format("--validation {}: is trained on, too: choose a file that is not, or "
                    "--validation-fraction",
                    file));
  }
  return warnings;
}

// What would have come every so many steps comes after the last alone.
std::vector<std::string> interval_warnings(const TrainArguments& arguments) {
  const std::tuple<const char*, std::int64_t, const char*> intervals[] = {
      {"--validate-every", arguments.validation.every, "validates"},
      {"--save-every", arguments.files.save_every, "saves"},
      {"--log-every", arguments.log_every, "logs"}};
  std::vector<std::string> warnings;
  for (const auto& [flag, every, does] : intervals) {
    if (arguments.command->count(flag) == 0 || every <= arguments.steps) continue;
    warnings.push_back(fmt::format("{} {}: the run has {} {}, so it {} after the last alone", flag,
                                   every, arguments.steps, arguments.steps == 1 ? "step" : "steps",
                                   does));
  }
  return warnings;
}

}  // namespace

std::vector<std::string> data_warnings(const TrainArguments& arguments, const TrainData& data,
                                       const Trainer& trainer, std::int64_t length) {
  std::vector<std::string> warnings = data.corpus.warnings();
  const auto add = [&](const std::vector<std::string>& more) {
    warnings.insert(warnings.end(), more.begin(), more.end());
  };
  if (data.validation) add(data.validation->warnings());
  add(document_warnings(data.corpus, trainer, length));
  add(trainer.warnings(arguments.steps));
  add(validation_warnings(arguments, trainer.validation_batches()));
  add(interval_warnings(arguments));
  if (arguments.schedule == "wsd" && arguments.command->count("--decay") == 0) {
    add({"--schedule wsd: without --decay the learning rate never falls"});
  }
  return warnings;
}

}  // namespace tessera::cli
