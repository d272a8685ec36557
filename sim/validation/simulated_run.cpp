// SPDX-License-Identifier: Apache-2.0
// What of a run decides whether something like it was validated.
#include <algorithm>
#include <array>
#include <string_view>

#include "tessera/lora.h"
#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"

namespace tessera::sim {
namespace {

using Words = std::vector<std::string>;

constexpr double jitter_most = 0.05;  // of what real kernels do

bool has_experts(const Model& model) {
  return std::any_of(model.modules.begin(), model.modules.end(), [](const Module& m) {
    return std::any_of(m.cost.linears.begin(), m.cost.linears.end(),
                       [](const LinearShape& linear) { return linear.rows_per_token < 1; });
  });
}

// "LoRA", "QLoRA", "some"; empty: nothing is.
std::string frozen_of(const Model& model) {
  const auto any = [&](const auto& is) {
    return std::any_of(model.parameters.begin(), model.parameters.end(), is);
  };
  if (!any([](const Parameter& p) { return !p.requires_grad; })) return "";
  if (!any(is_adapter)) return "some";
  return any([](const Parameter& p) { return p.name.ends_with(".qweight"); }) ? "QLoRA" : "LoRA";
}

// Of schemes, what another of the same name does not have.
struct SchemeFacts {
  SimulatedRun& run;

  void operator()(const FullyShardOptions& o) const {
    if (o.offload_params) run.offload = "parameters";
    if (o.shard_group != 0 || o.reshard_group != 0) {
      run.beside.emplace_back("all its ranks shard together");
    }
  }
  void operator()(const Fsdp1Options& o) const {
    if (o.offload_params) run.offload = "parameters";
  }
  void operator()(const Zero3Options& o) const {
    offloads("optimizer", o.offload_optimizer);
    offloads("parameters", o.offload_param);
    if (o.shard_group != 0) run.beside.emplace_back("all its ranks shard together");
  }
  void operator()(const Zero12Options& o) const { offloads("optimizer", o.offload_optimizer); }
  void operator()(const auto&) const {}

  void offloads(const char* what, const Offload& offload) const {
    if (offload.device == Offload::Device::cpu) run.offload = what;
    if (offload.device == Offload::Device::nvme) run.offload = std::string(what) + " to NVMe";
  }
};

std::string name_of_checkpointing(const TrainingOptions& training) {
  if (!training.checkpoint_blocks.empty()) return "of some blocks";
  switch (training.checkpointing) {
    case ActivationCheckpointing::none:
      return training.recompute.any() ? to_text(training.recompute) : "none";
    case ActivationCheckpointing::full: return "full";
    case ActivationCheckpointing::operators: return "operators";
  }
  return "?";
}

// The profile, or `eager` where memory is that of eager.
std::string memory_profile(const StackProfile& stack) {
  const StackProfile eager;
  const bool same = stack.loss == eager.loss && stack.saves == eager.saves &&
                    stack.fp8 == eager.fp8 && stack.autocast == eager.autocast &&
                    stack.dropout == eager.dropout && !stack.optimizer_dtype &&
                    stack.attention != "unfused";
  return same ? eager.name : name_unless_changed(stack);
}

// A list of names says only whether there is one.
std::string text_of(const OptionValue& value) {
  const auto* const list = std::get_if<std::vector<std::string>>(&value);
  if (list == nullptr) return to_text(value);
  return list->empty() ? "none" : "given";
}

// Those of the scheme, and those of a step that are no sizes.
std::vector<std::pair<std::string, std::string>> options_beside(const Model& model,
                                                                const SimulateOptions& options) {
  constexpr std::array<std::string_view, 3> of_steps = {"sync_every_micro_batch", "optimizer_dtype",
                                                        "checkpoint_every"};
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [name, value] : options_of(options.scheme, model)) {
    out.emplace_back(name, text_of(value));
  }
  for (const auto& [name, value] : options_of(options.training)) {
    const bool named = std::find(of_steps.begin(), of_steps.end(), name) != of_steps.end();
    if (named) out.emplace_back(name, text_of(value));
  }
  return out;
}

Words unlike_all(const Model& model, const SimulateOptions& options) {
  Words beside;
  if (has_experts(model)) beside.emplace_back("it has no experts");
  const bool half = options.stack.autocast || compute_dtype(options.scheme) != DType::float32;
  if (!half) beside.emplace_back("it computes in 16 bit");
  if (options.training.adam.states != 2) beside.emplace_back("its optimizer keeps two states");
  if (!options.training.passes.empty()) beside.emplace_back("its steps only train");
  if (options.jitter > jitter_most || !options.slow_ranks.empty() || !options.slow_links.empty()) {
    beside.emplace_back("nothing slows it down on purpose");
  }
  return beside;
}

}  // namespace

SimulatedRun run_of(const Model& model, const SimulateOptions& options) {
  const TrainingOptions& training = options.training;
  SimulatedRun run{.profile = name_unless_changed(options.stack),
                   .gpu = options.cluster.gpu.name,
                   .cluster = name_unless_changed(options.cluster),
                   .scheme = std::string(name_of(options.scheme)),
                   .ranks = options.cluster.ranks(),
                   .parameters = model.parameter_count(),
                   .sequence = training.sequence_length,
                   .tokens = training.batch * training.sequence_length,
                   .checkpointing = name_of_checkpointing(training),
                   .offload = {},
                   .frozen = frozen_of(model),
                   .memory_profile = memory_profile(options.stack),
                   .micro_batches = training.accumulation,
                   .options = options_beside(model, options),
                   .beside = unlike_all(model, options)};
  std::visit(SchemeFacts{run}, options.scheme);
  if (training.offload_activations > 0) {
    run.offload += run.offload.empty() ? "activations" : " and activations";
  }
  return run;
}

}  // namespace tessera::sim
