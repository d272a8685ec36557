// SPDX-License-Identifier: Apache-2.0
#include "cli/train/resumed_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "cli/train/run_facts.h"

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
                                   "--max-grad-norm",
                                   "--loss-scale-interval",
                                   "--dropout",
                                   "--no-dropout",
                                   "--tf32",
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

}  // namespace tessera::cli
