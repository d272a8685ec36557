// SPDX-License-Identifier: Apache-2.0
#include "cli/options/engine_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/options/checks.h"
#include "cli/options/deepspeed_option.h"

namespace tessera::cli {

void add_engine_options(CLI::App& command, EngineOptions& o) {
  o.command = &command;
  command
      .add_option("MODEL", o.model_path,
                  "Hugging Face config.json, or a module tree (docs/model-format.md)")
      ->required();
  add_scheme_options(command, o.scheme);
  command.add_option("--deepspeed", o.deepspeed, "Scheme and sizes from DeepSpeed's configuration")
      ->check(CLI::ExistingFile)
      ->default_str("")
      ->group("Sharding");
  command
      .add_option("--lora", o.lora,
                  "Trains small matrices beside linear layers, and nothing else: "
                  "rank=8,alpha=32,target=q_proj,v_proj; all-linear: all of blocks; base=nf4: "
                  "beside weights of 4 bit (QLoRA); dropout=0.1: of what they are given")
      ->default_str("")
      ->group(training_options().title);
  for (const Option& option : training_options().options) {
    if (option.name == "passes") continue;
    // 1 token is no length that anybody wants who gives none.
    const bool length = option.name == "sequence_length";
    add_option_flag(command, option, training_options().title, length ? "0" : shown_default(option),
                    o.training);
  }
}

void add_passes_option(CLI::App& command, EngineOptions& o) {
  for (const Option& option : training_options().options) {
    if (option.name != "passes") continue;
    add_option_flag(command, option, training_options().title, "", o.training);
  }
}

std::vector<std::string> model_warnings(const std::string& model_path, const Model& model) {
  std::vector<std::string> out;
  for (const std::string& warning : model.warnings) out.push_back(model_path + ": " + warning);
  return out;
}

namespace {

// Of a rank's micro-batch: with more the bytes of a run would soon be beyond what is counted.
constexpr std::int64_t tokens_max = std::int64_t{1} << 24;

Status check_tokens(const TrainingOptions& t) {
  const std::int64_t most = std::max<std::int64_t>(1, tokens_max / t.sequence_length);
  if (t.batch <= most) return {};
  return Status(Code::invalid_argument,
                fmt::format("--batch {}: no rank takes so many sequences of {} tokens at once, "
                            "choose at most {}",
                            t.batch, t.sequence_length, most));
}

}  // namespace

Status check_sequence_length(std::int64_t tokens, const Model& model) {
  if (model.sequence_length_max == 0 || tokens <= model.sequence_length_max) return {};
  return Status(Code::invalid_argument,
                fmt::format("--sequence-length {}: {} takes at most {} tokens", tokens, model.name,
                            model.sequence_length_max));
}

Status settle_sequences(TrainingOptions& t, const Model& model) {
  TESSERA_TRY(check_sequence_length(t.sequence_length, model));
  const std::int64_t longest = std::max<std::int64_t>(1, model.sequence_length_max);
  if (t.sequence_length == 0) t.sequence_length = std::min<std::int64_t>(8192, longest);
  return check_tokens(t);
}

namespace {

Result<TrainingOptions> training_of(const EngineOptions& o, const Model& model) {
  TrainingOptions t;
  t.sequence_length = 0;
  std::vector<std::string> names;
  for (const Option& option : training_options().options) {
    const auto given = o.training.find(flag_of(option));
    if (given == o.training.end()) continue;
    TESSERA_ASSIGN(const OptionValue value, parse_option(option, given->second));
    TESSERA_TRY(set_option(t, option.name, value));
    names.push_back(option.name);
  }
  TESSERA_TRY(
      check_needs(training_options().options, options_of(t), names, "", OptionSpelling::flags));
  TESSERA_TRY(settle_sequences(t, model));
  return t;
}

// As it was written: "train:short".
std::string text_of(const TrainingPass& pass) {
  TrainingOptions one;
  one.passes = {pass};
  for (const auto& [name, value] : options_of(one)) {
    if (name == "passes") return to_text(value);
  }
  return pass.graph;
}

Status check_passes(const TrainingOptions& t, const Model& model) {
  if (!t.passes.empty() && t.accumulation > 1) {
    return Status(Code::invalid_argument,
                  "--accumulation means nothing with --passes: write train as often as wanted");
  }
  for (const TrainingPass& pass : t.passes) {
    if (model.find_graph(pass.graph) != nullptr) continue;
    return Status(Code::invalid_argument, fmt::format("--passes {}: {} has no graph '{}'",
                                                      text_of(pass), model.name, pass.graph));
  }
  return {};
}

// Whether gradients could be reduced less often than they are.
Status check_no_sync(const TrainingOptions& t, const Scheme& scheme) {
  const auto accumulates = [](const TrainingPass& pass) {
    return pass.kind == TrainingPass::Kind::accumulate;
  };
  const bool by_pass = std::any_of(t.passes.begin(), t.passes.end(), accumulates);
  if (t.sync_every_micro_batch && !by_pass) return {};
  const auto* const zero12 = std::get_if<Zero12Options>(&scheme);
  if (std::holds_alternative<Zero3Options>(scheme) || (zero12 != nullptr && zero12->stage == 2)) {
    return Status(Code::invalid_argument,
                  fmt::format("{} means nothing to the scheme {}, which keeps only parts of "
                              "gradients and so reduces in every micro-batch: leave it out",
                              by_pass ? "accumulate in --passes" : "--no-sync", name_of(scheme)));
  }
  const auto trains = std::count_if(t.passes.begin(), t.passes.end(),
                                    [](const TrainingPass& pass) { return pass.trains(); });
  if (by_pass || t.accumulation > 1 || trains > 1) return {};
  return Status(
      Code::invalid_argument,
      "--no-sync means nothing with one micro-batch: add --accumulation, or leave it out");
}

// DeepSpeed's stage 1 keeps whole gradients and reduces them in the last micro-batch alone
// (runtime/engine.py: allreduce_gradients).
void reduce_at_boundary(TrainingOptions& t, const Scheme& scheme) {
  const auto* const zero12 = std::get_if<Zero12Options>(&scheme);
  if (zero12 != nullptr && zero12->stage == 1) t.sync_every_micro_batch = false;
}

// What only runs with real numbers show would be silent here.
Status check_real(const GivenFlags& given, const Scheme& scheme) {
  for (const Option& option : options_known_to(name_of(scheme))) {
    if (!option.only_real || !given.contains(flag_of(option))) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} acts in runs with real numbers alone, as those of tessera train: "
                              "leave it out",
                              flag_of(option)));
  }
  return {};
}

// Elements that hold packed weights have 16 bits.
Status check_packed(const std::optional<LoraOptions>& lora, const Scheme& scheme) {
  if (!lora || !lora->packed) return {};
  DType shards = compute_dtype(scheme);
  if (const auto* own = std::get_if<FullyShardOptions>(&scheme)) shards = own->sharded_dtype;
  if (const auto* own = std::get_if<Fsdp1Options>(&scheme)) shards = own->original_dtype;
  if (shards != DType::float32 && compute_dtype(scheme) != DType::float32) return {};
  return Status(Code::invalid_argument,
                "--lora base=nf4 packs weights into elements of 16 bits, and shards are float32: "
                "add --sharded-dtype bf16, or --param-dtype bf16 where there is no such option");
}

}  // namespace

Result<Training> resolve(const EngineOptions& o, Rank ranks) {
  if (o.command != nullptr) TESSERA_TRY(check_not_empty(*o.command));
  TESSERA_ASSIGN(Model model, load_model(o.model_path));
  Training out;
  if (!o.lora.empty()) {
    TESSERA_ASSIGN(out.lora, parse_lora(o.lora));
    TESSERA_ASSIGN(model, with_lora(model, *out.lora));
  }
  if (o.deepspeed.empty()) {
    TESSERA_ASSIGN(out.scheme, resolve_scheme(o.scheme, model));
  }
  TESSERA_ASSIGN(out.training, training_of(o, model));
  TESSERA_TRY(check_passes(out.training, model));
  TESSERA_TRY(check_packed(out.lora, out.scheme));
  out.warnings = model_warnings(o.model_path, model);
  if (out.lora && !rank_note(model).empty()) out.warnings.push_back(rank_note(model));
  out.model = std::move(model);
  if (!o.deepspeed.empty()) {
    TESSERA_TRY(apply_deepspeed(o, ranks, out));
  } else {
    TESSERA_TRY(check_no_sync(out.training, out.scheme));
    reduce_at_boundary(out.training, out.scheme);
    if (!o.real) TESSERA_TRY(check_real(o.scheme.given, out.scheme));
  }
  return out;
}

}  // namespace tessera::cli
