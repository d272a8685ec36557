// SPDX-License-Identifier: Apache-2.0
// The options of a training step, listed once. Functions, and what only runs with real numbers
// have, are not among them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/options/option_list.h"
#include "tessera/training.h"

namespace tessera {
namespace {

constexpr std::array<const char*, 6> pass_names = {"train", "eval",       "forward",
                                                   "step",  "accumulate", "summon"};

}  // namespace

/// "train", "eval:short"
template <>
struct OptionForm<std::vector<TrainingPass>> {
  static void describe(Option& about) { about.kind = OptionKind::list; }
  static OptionValue get(const std::vector<TrainingPass>& passes, const Option&) {
    std::vector<std::string> texts;
    for (const TrainingPass& pass : passes) {
      const std::string name = pass_names[static_cast<std::size_t>(pass.kind)];
      texts.push_back(pass.graph.empty() ? name : fmt::format("{}:{}", name, pass.graph));
    }
    return texts;
  }
  static Status set(std::vector<TrainingPass>& passes, const OptionValue& given, const Option&) {
    passes.clear();
    for (const std::string& text : std::get<std::vector<std::string>>(given)) {
      const std::size_t colon = text.find(':');
      const std::string kind = text.substr(0, colon);
      std::size_t place = 0;
      while (place < pass_names.size() && pass_names[place] != kind) ++place;
      const auto kind_is = [&](TrainingPass::Kind k) { return place == std::size_t(k); };
      const bool whole = kind_is(TrainingPass::Kind::step) || kind_is(TrainingPass::Kind::summon);
      const bool empty = colon != std::string::npos && (whole || colon + 1 == text.size());
      if (place == pass_names.size() || empty) {
        return Status(
            Code::invalid_argument,
            fmt::format("--passes '{}': give train, accumulate, eval or forward, each perhaps "
                        "with a graph of the model as in train:short, or step, or summon",
                        text));
      }
      passes.push_back({.kind = static_cast<TrainingPass::Kind>(place),
                        .graph = colon == std::string::npos ? "" : text.substr(colon + 1)});
    }
    return {};
  }
};

/// "norm", "ffn"
template <>
struct OptionForm<Recompute> {
  static constexpr std::array<std::pair<const char*, bool Recompute::*>, 5> parts = {
      {{"norm", &Recompute::norm},
       {"activation", &Recompute::activation},
       {"ffn", &Recompute::ffn},
       {"qkv", &Recompute::qkv},
       {"attention", &Recompute::attention}}};

  static void describe(Option& about) { about.kind = OptionKind::list; }
  static OptionValue get(const Recompute& recompute, const Option&) {
    std::vector<std::string> texts;
    for (const auto& [word, member] : parts) {
      if (recompute.*member) texts.emplace_back(word);
    }
    return texts;
  }
  static Status set(Recompute& recompute, const OptionValue& given, const Option&) {
    recompute = {};
    for (const std::string& text : std::get<std::vector<std::string>>(given)) {
      const auto part = std::find_if(parts.begin(), parts.end(),
                                     [&](const auto& known) { return text == known.first; });
      if (part == parts.end()) {
        return Status(
            Code::invalid_argument,
            fmt::format("--recompute '{}': give norm, activation, ffn, qkv or attention", text));
      }
      if (std::exchange(recompute.*part->second, true)) {
        return Status(Code::invalid_argument, fmt::format("--recompute '{}': named twice", text));
      }
    }
    return {};
  }
};

namespace {

// What of activations is kept, and where.
OptionList<TrainingOptions> with_kept(OptionList<TrainingOptions> list) {
  using O = TrainingOptions;
  list.add(&O::checkpointing, {.name = "checkpointing",
                               .help = "Activation checkpointing of the blocks",
                               .more = "operators: beside the input, what attention and every "
                                       "second matmul return is kept",
                               .words = {"none", "full", "operators"}})
      .add(&O::checkpoint_every, {.name = "checkpoint_every",
                                  .help = "Of so many blocks, checkpoint the first",
                                  .least = 1,
                                  .most = 100'000,
                                  .needs = {{"checkpointing", {"full", "operators"}}}})
      .add(&O::checkpoint_blocks,
           {.name = "checkpoint_blocks",
            .help = "Checkpoint these blocks only: paths, in which * and ** stand for text, or "
                    "classes",
            .more = "as the check_fn of apply_activation_checkpointing chooses; without it all "
                    "blocks",
            .needs = {{"checkpointing", {"full", "operators"}}}})
      .add(&O::recompute,
           {.name = "recompute",
            .help = "Activations of blocks that backward computes again: norm, activation, "
                    "ffn, qkv, attention",
            .more = "norm: what normalisations return; activation: what the last matrix of an "
                    "MLP multiplies; ffn, attention: all but the last product, with the "
                    "normalisation; as LLM.Q does",
            .needs = {{"checkpointing", {"none"}}}})
      .add(&O::offload_activations,
           {.name = "offload_activations",
            .help = "Of so many blocks, from the first, activations wait in host memory until "
                    "backward",
            .more = "of checkpointed ones their inputs. Two blocks' worth is on the device",
            .most = 100'000});
  return list;
}

const OptionList<TrainingOptions>& list() {
  using O = TrainingOptions;
  static const auto all =
      OptionList<O>("Training step", {})
          .add(&O::batch, {.name = "batch",
                           .help = "Sequences per rank and micro-batch",
                           .least = 1,
                           .most = 1'000'000})
          .add(&O::sequence_length,
               {.name = "sequence_length",
                .help = "Tokens per sequence; 0: the model's longest, at most 8192",
                .unit = "tokens",
                .most = 100'000'000})
          .add(&O::accumulation, {.name = "accumulation",
                                  .help = "Micro-batches per step",
                                  .least = 1,
                                  .most = 100'000})
          .add(&O::passes, {.name = "passes",
                            .help = "What a step is made of instead: train, accumulate, eval, "
                                    "forward, step, summon; train:GRAPH"})
          .add(&O::sync_every_micro_batch,
               {.name = "sync_every_micro_batch",
                .help = "Off: reduce gradients only in the last micro-batch",
                .flag = "--no-sync"})
          .add(&O::max_grad_norm, {.name = "max_grad_norm",
                                   .help = "Clip the gradients' 2-norm; 0: do not",
                                   .most = 1e30})
          .add(
              [](auto& o) -> auto& { return o.adam.states; },
              {.name = "optimizer_states",
               .help = "States per element that the optimizer keeps beside the master",
               .more = "2: AdamW, Lamb; 1: Lion, Adagrad, SGD with momentum; 0: SGD. Training with "
                       "real numbers steps with AdamW",
               .most = 2})
          .add([](auto& o) -> auto& { return o.adam.state_type; },
               {.name = "optimizer_dtype",
                .help = "How the optimizer keeps its states",
                .more = "`default`: as the profile says, or in the dtype of shards; `int8`: with a "
                        "float32 scale for every 256 elements. Training with real numbers keeps "
                        "them in float32 or, on CPUs, in bfloat16, rounded at random by "
                        "parameter, element and step",
                .words = {"float32", "bfloat16", "int8"},
                .unset = "default",
                .needs = {{"optimizer_states", {"1", "2"}}}});
  static const auto whole = with_kept(all);
  return whole;
}

}  // namespace

const OptionFamily& training_options() { return list().family(); }

OptionValues options_of(const TrainingOptions& options) {
  OptionValues values;
  for (std::size_t place = 0; place < list().options().size(); ++place) {
    values.emplace_back(list().options()[place].name, list().get(options, place));
  }
  return values;
}

Status set_option(TrainingOptions& options, std::string_view name, const OptionValue& value) {
  const std::size_t place = list().find(name);
  if (place == list().options().size()) {
    return Status(Code::invalid_argument, fmt::format("a training step has no option {}", name));
  }
  const Option& option = list().options()[place];
  TESSERA_ASSIGN(const OptionValue checked, checked_option(option, value, option.name));
  return list().set(options, place, checked);
}

}  // namespace tessera
