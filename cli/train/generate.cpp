// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "cli/train/generation_settings.h"
#include "cli/train/prompt.h"
#include "cli/train/resumed_run.h"
#include "cli/train/token_choice.h"
#include "engine/text/text_file.h"
#include "tessera/checkpoint.h"
#include "tessera/decoder.h"
#include "tessera/host_runtime.h"
#include "tessera/scheme.h"
#include "tessera/weights.h"

namespace tessera::cli {
namespace {

struct GenerateArguments {
  const CLI::App* command = nullptr;
  std::string model;
  std::string weights;
  std::string checkpoint;
  PromptArguments prompt;
  std::int64_t tokens = 200;
  TokenChoice choice;
  std::int32_t threads = 0;
};

constexpr const char* generate_examples = R"(Examples:
  tessera generate examples/models/gpt-tiny.json --weights trained.safetensors --prompt "This "
  tessera generate config.json --checkpoint run --tokens 500 --temperature 0.8 --top-k 40

Exit codes: 0 done, 1 a fault of tessera, 2 bad input.)";

using Values = std::vector<std::vector<float>>;  // by ParameterId

// Through an engine of one rank, which reads files of weights as well as checkpoints.
Result<Values> read_values(const GenerateArguments& a, const Model& model,
                           ProcessRuntime& runtime) {
  TESSERA_ASSIGN(const auto engine, make_engine(runtime, model, ReplicateOptions{}));
  if (a.checkpoint.empty()) {
    TESSERA_TRY(import_weights(*engine, a.weights));
  } else {
    TESSERA_TRY(load_checkpoint(*engine, a.checkpoint).status());
  }
  Values values;
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    values.emplace_back(static_cast<std::size_t>(model.parameters[p].numel().value));
    const auto keep = [&](Rank, Numel first, std::span<const float> part) {
      std::copy(part.begin(), part.end(),
                values.back().begin() + static_cast<std::ptrdiff_t>(first.value));
    };
    TESSERA_TRY(engine->inspect_shards(ParameterId{static_cast<std::int32_t>(p)}, keep));
  }
  TESSERA_TRY(runtime.finish());
  return values;
}

// How many tokens are added, and how they are chosen.
struct Plan {
  std::int64_t tokens = 0;
  TokenChoice choice;
};

// Flags, then what the model's files say, then what flags are by default.
Result<Plan> settle(const GenerateArguments& a, const GenerationSettings& said,
                    std::size_t prompt) {
  const auto given = [&](const char* flag) { return a.command->count(flag) > 0; };
  Plan plan{.tokens = a.tokens, .choice = a.choice};
  if (!given("--tokens") && said.new_tokens) plan.tokens = *said.new_tokens;
  if (!given("--tokens") && !said.new_tokens && said.length) {
    plan.tokens = *said.length - static_cast<std::int64_t>(prompt);
    if (plan.tokens <= 0) {
      return Status(Code::invalid_argument,
                    fmt::format("{}: max_length {} has no room behind the {} tokens of the prompt: "
                                "say with --tokens how many to add",
                                said.file, *said.length, prompt));
    }
  }
  if (said.file.empty()) return plan;
  if (!given("--temperature")) plan.choice.temperature = said.samples ? said.choice.temperature : 0;
  if (!given("--top-k")) plan.choice.top_k = said.choice.top_k;
  if (!given("--top-p")) plan.choice.top_p = said.choice.top_p;
  if (!given("--repetition-penalty")) {
    plan.choice.repetition_penalty = said.choice.repetition_penalty;
  }
  return plan;
}

Status check_flags(const GenerateArguments& a, const GenerationSettings& said,
                   const TokenChoice& choice) {
  const bool chooses = choice.temperature > 0;
  const std::string always =
      a.command->count("--temperature") > 0 || said.file.empty()
          ? "with --temperature 0, which takes the most likely token"
          : fmt::format(
                "where {} has no do_sample true, so that the most likely token is taken, "
                "unless --temperature is given",
                said.file);
  const bool among = choice.top_k != 1;
  const char* const first = "with --top-k 1, which takes the most likely token";
  return check_acting(*a.command, {{"--top-k", chooses, always},
                                   {"--top-p", chooses, always},
                                   {"--seed", chooses, always},
                                   {"--seed", among, first},
                                   {"--top-p", among, first},
                                   {"--temperature", among, first}});
}

std::vector<std::string> choice_warnings(const GenerateArguments& a, const Model& model) {
  const std::int64_t vocabulary = vocabulary_of(model);
  if (a.command->count("--top-k") == 0 || a.choice.top_k <= vocabulary) return {};
  return {fmt::format("--top-k {}: {} has {} tokens, which may all be chosen", a.choice.top_k,
                      model.name, vocabulary)};
}

// No more than the run needs.
std::int64_t context_for(std::int64_t tokens, const Model& model, std::size_t prompt) {
  const std::int64_t most = std::max<std::int64_t>(model.sequence_length_max, 1);
  return std::min(most, static_cast<std::int64_t>(prompt) + tokens);
}

// The prompt, then the youngest token. Where there is no room for that the older half is forgotten:
// places are counted from the first token, so what is kept has to be taken again.
std::span<const std::int32_t> to_take(Decoder& decoder, std::span<const std::int32_t> tokens,
                                      bool first) {
  const auto context = static_cast<std::size_t>(decoder.context());
  if (first) return tokens.last(std::min(tokens.size(), context));
  if (decoder.taken() < decoder.context()) return tokens.last(1);
  decoder.forget();
  return tokens.last((context + 1) / 2);
}

// Weights of a run that has diverged choose nothing.
Status check_numbers(const std::vector<float>& logits, std::int64_t token) {
  for (const float logit : logits) {
    if (!std::isnan(logit)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("what the model expects as token {} is no number: its weights are "
                              "damaged, or those of a run that has diverged",
                              token + 1));
  }
  return {};
}

Status generate(const GenerateArguments& a) {
  TESSERA_TRY(check_not_empty(*a.command));
  if (a.weights.empty() == a.checkpoint.empty()) {
    return Status(Code::invalid_argument, "give --weights or --checkpoint, one of them");
  }
  TESSERA_TRY(check_no_adapters(a.checkpoint));
  TESSERA_TRY(check_no_stream(a.model));
  TESSERA_ASSIGN(Model model, load_model(a.model));
  for (Parameter& parameter : model.parameters) parameter.dtype = DType::float32;
  print_warnings(model_warnings(a.model, model));
  print_warnings(checkpoint_warnings(a.checkpoint, a.model, model));
  TESSERA_ASSIGN(const GenerationSettings said,
                 read_generation_settings(a.model, vocabulary_of(model)));
  TESSERA_ASSIGN(Prompt prompt, Prompt::open(a.prompt, model, said.ends));
  TESSERA_ASSIGN(const Plan plan, settle(a, said, prompt.tokens().size()));
  TESSERA_TRY(check_flags(a, said, plan.choice));
  print_warnings(said.warnings);
  print_warnings(choice_warnings(a, model));
  print_warnings(prompt.warnings(model));
  TESSERA_ASSIGN(const auto loader, make_local_runtime({}));
  TESSERA_ASSIGN(const Values values, read_values(a, model, *loader));
  const std::vector<std::span<const float>> parameters(values.begin(), values.end());
  std::vector<std::int32_t> tokens = prompt.tokens();
  const std::int64_t context = context_for(plan.tokens, model, tokens.size());
  TESSERA_ASSIGN(Decoder decoder,
                 Decoder::create(model, parameters, {.context = context, .threads = a.threads}));
  TESSERA_TRY(prompt.show(tokens));
  for (std::int64_t k = 0; k < plan.tokens; ++k) {
    TESSERA_ASSIGN(auto logits, decoder.take(to_take(decoder, tokens, k == 0)));
    TESSERA_TRY(check_numbers(logits, k));
    penalise(logits, tokens, plan.choice.repetition_penalty);
    const std::int32_t next = choose_token(logits, plan.choice, static_cast<std::uint64_t>(k));
    if (prompt.ends_with(next)) break;
    tokens.push_back(next);
    TESSERA_TRY(prompt.show(tokens));
  }
  return prompt.finish();
}

}  // namespace

void add_generate(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<GenerateArguments>();
  CLI::App* command =
      app.add_subcommand("generate", "Write what a trained model expects to follow");
  command->footer(generate_examples);
  command->add_option("MODEL", a->model, "Hugging Face config.json")->required();
  command->add_option("--weights", a->weights, "safetensors file")->default_str("");
  command->add_option("--checkpoint", a->checkpoint, "Instead: a checkpoint, or a folder of them")
      ->default_str("");
  command
      ->add_option("--prompt", a->prompt.text,
                   "What to go on from; without --tokenizer its bytes are the tokens")
      ->default_str("a line feed");
  command
      ->add_option("--tokenizer", a->prompt.tokenizer,
                   "tokenizer.json of the model, or a folder with one")
      ->default_str("");
  command
      ->add_option("--end-of-text", a->prompt.end_of_text,
                   "The token that ends the text, or its number, or none; else the model's "
                   "eos_token_id")
      ->default_str("");
  command->add_option("--prompt-ids", a->prompt.ids, "Instead: token numbers, a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("");
  command->add_option("--tokens", a->tokens, "How many to add")->check(within(1, 1e7));
  command->add_option("--temperature", a->choice.temperature, "0: always the most likely one")
      ->check(within(0, 100));
  command->add_option("--top-k", a->choice.top_k, "Among the so many most likely; 0: all")
      ->check(within(0, 1e7));
  command
      ->add_option("--top-p", a->choice.top_p,
                   "Among the fewest most likely that are together as likely as this")
      ->check(within(0, 1));
  command
      ->add_option("--repetition-penalty", a->choice.repetition_penalty,
                   "Above 1: tokens that were there are less likely to come again")
      ->check(within(0.01, 100));
  command->add_option("--seed", a->choice.seed, "Of the choice")->check(any_uint64());
  command->add_option("--threads", a->threads, "Of the kernels; 0: all cores")
      ->check(within(0, 4096));
  a->command = command;
  command->callback([a, &exit_code] {
    Status status =
        check_acting(*a->command, {{"--prompt", a->prompt.ids.empty(), "with --prompt-ids"}});
    if (status.ok()) status = generate(*a);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
