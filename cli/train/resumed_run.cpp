// SPDX-License-Identifier: Apache-2.0
#include "cli/train/resumed_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/train/run_facts.h"
#include "tessera/checkpoint.h"

namespace tessera::cli {
namespace {

// Data, their order, --seed, --sequence-length and --lora are compared by whoever resumes.
constexpr std::array of_numbers = {"the version of tessera",
                                   "the model",
                                   "--learning-rate",
                                   "--schedule",
                                   "--warmup",
                                   "--decay",
                                   "--min-lr",
                                   "--betas",
                                   "--weight-decay",
                                   "--epsilon",
                                   "--dtype",
                                   "--matmul-dtype",
                                   "--optimizer-dtype",
                                   "--max-grad-norm",
                                   "--loss-scale-interval",
                                   "--dropout",
                                   "--no-dropout",
                                   "--tf32",
                                   "--sharded-dtype",
                                   "--param-dtype",
                                   "--reduce-dtype",
                                   "--broadcast-dtype",
                                   "--own-dtypes",
                                   "--keep-low-precision-grads",
                                   "--comm-hook",
                                   "--gradient-divide-factor",
                                   "--quantized-weights",
                                   "--quantized-gradients",
                                   "--loss-scale"};

}  // namespace

Facts numeric_facts(const TrainArguments& arguments, const TrainRun& run, const Trainer& trainer) {
  Facts facts;
  for (auto& [name, value] :
       command_facts(*arguments.command, arguments.engine.model_path, run.model)) {
    const bool numeric = std::find(of_numbers.begin(), of_numbers.end(), name) != of_numbers.end();
    // Elsewhere the last step does not change the rate of those before.
    const bool falls = name == "--steps" && arguments.schedule != "constant";
    if (numeric || falls) facts.emplace_back(name, value);
  }
  facts.emplace_back("--deepspeed", file_fact(arguments.engine.deepspeed));
  facts.emplace_back("tokens a step", std::to_string(trainer.tokens_per_step()));
  return facts;
}

std::string changes_since(const std::string& checkpoint, const std::string& text,
                          const Facts& now) {
  std::vector<std::string> changes;
  for (const Difference& one : differences(text, facts_text(now))) {
    if (one.here == "unknown" || one.there == "unknown") continue;  // --steps means nothing to one
    changes.push_back(fmt::format("{} was {}, is {}", one.name, one.here, one.there));
  }
  if (changes.empty()) return "";
  return fmt::format("{}: goes on otherwise than it began: {}", checkpoint,
                     fmt::join(changes, "; "));
}

std::vector<std::string> passed_warnings(const std::string& folder) {
  const auto passed = passed_checkpoints(folder);
  std::vector<std::string> warnings;
  if (!passed.ok()) return warnings;  // loading it says why
  if (const auto& renamed = passed->renamed; !renamed.empty()) {
    warnings.push_back(fmt::format(
        "{}: {} under another name and not looked at, as only folders step-... are: {}; "
        "name the one that is meant",
        folder, renamed.size() == 1 ? "a checkpoint is" : "checkpoints are",
        fmt::join(renamed, ", ")));
  }
  if (const auto& unfinished = passed->unfinished; !unfinished.empty()) {
    warnings.push_back(fmt::format("{}: {} no manifest, as saving did not end: {}; passed by",
                                   folder,
                                   unfinished.size() == 1 ? "a later step has" : "later steps have",
                                   fmt::join(unfinished, ", ")));
  }
  return warnings;
}

std::vector<std::string> checkpoint_warnings(const std::string& checkpoint,
                                             const std::string& model_path, const Model& model) {
  if (checkpoint.empty()) return {};
  const auto info = read_checkpoint(checkpoint);
  if (!info.ok()) return {};  // loading it says why
  std::vector<std::string> warnings = passed_warnings(checkpoint);
  const auto facts = info->blobs.find(facts_blob);
  if (facts == info->blobs.end()) return warnings;
  const std::string now = facts_text({{"the model", model_fact(model_path, model)}});
  for (const Difference& one : differences(facts->second, now)) {
    if (one.name != "the model") continue;
    warnings.push_back(
        fmt::format("{}: was trained by a description of {}, but {} is one of {}: is it that "
                    "run's config.json?",
                    info->path, one.here, model_path, one.there));
  }
  return warnings;
}

Status check_no_adapters(const std::string& checkpoint) {
  if (checkpoint.empty()) return {};
  const auto info = read_checkpoint(checkpoint);
  if (!info.ok() || !info->blobs.contains("lora")) return {};  // loading it says why
  return Status(Code::invalid_argument,
                fmt::format("{}: has adapters of --lora: write weights with them by tessera "
                            "checkpoint merge, and name those with --weights",
                            info->path));
}

}  // namespace tessera::cli
