// SPDX-License-Identifier: Apache-2.0
#include "cli/engine_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/checks.h"

namespace tessera::cli {
namespace {

const std::map<std::string, DType> dtypes = {{"float32", DType::float32},
                                             {"fp32", DType::float32},
                                             {"bfloat16", DType::bfloat16},
                                             {"bf16", DType::bfloat16}};
const std::map<std::string, ReshardAfterForward> reshards = {
    {"auto", ReshardAfterForward::automatic},
    {"always", ReshardAfterForward::always},
    {"never", ReshardAfterForward::never}};

template <class Map>
CLI::IsMember names_of(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [name, value] : map) names.push_back(name);
  return CLI::IsMember(names);
}

Result<std::vector<std::string>> units_of(const EngineOptions& options, const Model& model) {
  if (options.wrap_class.empty()) return options.units;
  if (!options.units.empty()) {
    return Status(Code::invalid_argument, "give --units or --wrap, not both");
  }
  std::vector<std::string> paths;
  for (std::size_t m = 1; m < model.modules.size(); ++m) {
    if (model.modules[m].class_name == options.wrap_class) paths.push_back(model.modules[m].path);
  }
  if (!paths.empty()) return paths;
  std::vector<std::string> known;
  for (const Module& m : model.modules) known.push_back(m.class_name);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return Status(Code::invalid_argument,
                fmt::format("--wrap {}: {} has no module of that class, it has {}",
                            options.wrap_class, model.name, fmt::join(known, ", ")));
}

}  // namespace

void add_engine_options(CLI::App& command, EngineOptions& o) {
  command
      .add_option("MODEL", o.model_path,
                  "Hugging Face config.json, or a module tree (docs/model-format.md)")
      ->required();
  const char* sharding = "Sharding";
  command.add_option("--scheme", o.scheme, "How parameters are sharded")
      ->check(CLI::IsMember({"fully_shard"}))
      ->group(sharding);
  command.add_option("--units", o.units, "Module paths that become sharding units, a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows the list is MODEL
      ->default_str("")
      ->group(sharding);
  command.add_option("--wrap", o.wrap_class, "Every module of this class becomes a unit")
      ->group(sharding);
  command.add_option("--reshard-after-forward", o.reshard, "Free parameters after forward")
      ->check(names_of(reshards))
      ->group(sharding);
  command.add_option("--param-dtype", o.param_dtype, "Gathered parameters and their gradients")
      ->check(names_of(dtypes))
      ->group(sharding);
  command.add_option("--reduce-dtype", o.reduce_dtype, "Gradient reduction")
      ->check(names_of(dtypes))
      ->group(sharding);
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
  command.add_option("--checkpointing", o.checkpointing, "Activation checkpointing of the blocks")
      ->check(CLI::IsMember({"none", "full"}))
      ->group(training);
}

Result<Training> resolve(const EngineOptions& o) {
  TESSERA_ASSIGN(Model model, load_model(o.model_path));
  Training out;
  TESSERA_ASSIGN(out.fully_shard.units, units_of(o, model));
  out.fully_shard.reshard_after_forward = reshards.at(o.reshard);
  out.fully_shard.param_dtype = dtypes.at(o.param_dtype);
  out.fully_shard.reduce_dtype = dtypes.at(o.reduce_dtype);
  const std::int64_t longest = model.sequence_length_max == 0 ? 1 : model.sequence_length_max;
  out.training.batch = o.batch;
  out.training.sequence_length =
      o.sequence_length == 0 ? std::min<std::int64_t>(8192, longest) : o.sequence_length;
  if (model.sequence_length_max > 0 && o.sequence_length > model.sequence_length_max) {
    return Status(Code::invalid_argument,
                  fmt::format("--sequence-length {}: {} takes at most {} tokens", o.sequence_length,
                              model.name, model.sequence_length_max));
  }
  out.training.accumulation = o.accumulation;
  out.training.sync_every_micro_batch = !o.no_sync;
  out.training.checkpointing =
      o.checkpointing == "full" ? ActivationCheckpointing::full : ActivationCheckpointing::none;
  out.model = std::move(model);
  return out;
}

}  // namespace tessera::cli
