// SPDX-License-Identifier: Apache-2.0
#include "cli/options/engine_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/options/checks.h"
#include "cli/options/deepspeed_option.h"
#include "cli/options/pass_list.h"

namespace tessera::cli {

void add_engine_options(CLI::App& command, EngineOptions& o) {
  command
      .add_option("MODEL", o.model_path,
                  "Hugging Face config.json, or a module tree (docs/model-format.md)")
      ->required();
  add_scheme_options(command, o.scheme);
  command.add_option("--deepspeed", o.deepspeed, "Scheme and sizes from DeepSpeed's configuration")
      ->check(CLI::ExistingFile)
      ->default_str("")
      ->group("Sharding");
  const char* training = "Training step";
  command.add_option("--batch", o.batch, "Sequences per rank and micro-batch")
      ->check(within(1, 1'000'000))
      ->group(training);
  command
      .add_option("--sequence-length", o.sequence_length,
                  "Tokens per sequence; 0: the model's longest, at most 8192")
      ->check(within(0, 100'000'000))
      ->group(training);
  command.add_option("--accumulation", o.accumulation, "Micro-batches per step")
      ->check(within(1, 100'000))
      ->group(training);
  command.add_flag("--no-sync", o.no_sync, "Reduce gradients only in the last micro-batch")
      ->group(training);
  command.add_option("--max-grad-norm", o.max_grad_norm, "Clip the gradients' norm; 0: do not")
      ->check(CLI::Range(0.0, 1e30))
      ->group(training);
  command.add_option("--checkpointing", o.checkpointing, "Activation checkpointing of the blocks")
      ->check(CLI::IsMember({"none", "full", "operators"}))
      ->group(training);
  command
      .add_option("--checkpoint-every", o.checkpoint_every,
                  "Of so many blocks, checkpoint the first")
      ->check(within(1, 100'000))
      ->group(training);
}

void add_passes_option(CLI::App& command, EngineOptions& o) {
  command
      .add_option("--passes", o.passes,
                  "What a step is made of instead: train, eval, forward, step; train:GRAPH")
      ->default_str("")
      ->group("Training step");
}

std::vector<std::string> window_warnings(const std::string& model_path, const Model& model,
                                         std::int64_t sequence_length) {
  if (model.sliding_window == 0 || sequence_length <= model.sliding_window) return {};
  return {fmt::format(
      "{}: sliding_window is {}, but the costs of {} tokens are those of full attention",
      model_path, model.sliding_window, sequence_length)};
}

Result<Training> resolve(const EngineOptions& o, Rank ranks) {
  TESSERA_ASSIGN(Model model, load_model(o.model_path));
  Training out;
  if (o.deepspeed.empty()) {
    TESSERA_ASSIGN(out.scheme, resolve_scheme(o.scheme, model));
  }
  const std::int64_t longest = model.sequence_length_max == 0 ? 1 : model.sequence_length_max;
  out.training.batch = o.batch;
  out.training.sequence_length =
      o.sequence_length == 0 ? std::min<std::int64_t>(8192, longest) : o.sequence_length;
  if (model.sequence_length_max > 0 && o.sequence_length > model.sequence_length_max) {
    return Status(Code::invalid_argument,
                  fmt::format("--sequence-length {}: {} takes at most {} tokens", o.sequence_length,
                              model.name, model.sequence_length_max));
  }
  out.warnings = window_warnings(o.model_path, model, out.training.sequence_length);
  out.training.accumulation = o.accumulation;
  if (!o.passes.empty() && o.accumulation > 1) {
    return Status(Code::invalid_argument,
                  "--accumulation means nothing with --passes: write train as often as wanted");
  }
  TESSERA_ASSIGN(out.training.passes, parse_passes(o.passes, model));
  out.training.max_grad_norm = o.max_grad_norm;
  out.training.sync_every_micro_batch = !o.no_sync;
  out.training.checkpointing = o.checkpointing == "full"        ? ActivationCheckpointing::full
                               : o.checkpointing == "operators" ? ActivationCheckpointing::operators
                                                                : ActivationCheckpointing::none;
  out.training.checkpoint_every = o.checkpoint_every;
  out.model = std::move(model);
  if (!o.deepspeed.empty()) TESSERA_TRY(apply_deepspeed(o, ranks, out));
  return out;
}

}  // namespace tessera::cli
