// SPDX-License-Identifier: Apache-2.0
#include "cli/options/deepspeed_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tessera/deepspeed.h"

namespace tessera::cli {
namespace {

// What a file never says; the first it may say.
constexpr std::array<std::string_view, 4> beside = {"--param-dtype", "--policy", "--live-budget",
                                                    "--ranks-per-node"};

Status decided_by_file(const EngineOptions& o) {
  for (const auto* given : {&o.scheme.given, &o.training}) {
    for (const auto& [flag, text] : *given) {
      const bool sharding = given == &o.scheme.given || flag == "--no-sync";
      if (!sharding || std::find(beside.begin(), beside.end(), flag) != beside.end()) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{}: the file of --deepspeed decides: change it there", flag));
    }
  }
  return {};
}

Status contradiction(const char* option, const auto& given, const std::string& file,
                     const char* key, const auto& found) {
  return Status(Code::invalid_argument,
                fmt::format("{} {}: {} has {} {}: leave one out", option, given, file, key, found));
}

// The file's value, which an option may repeat or, if there is none, give.
template <class T>
Status settle(const EngineOptions& o, const char* option, const char* key,
              const std::optional<T>& file, T& value) {
  if (!file) return {};
  if (o.training.contains(option) && value != *file) {
    return contradiction(option, value, o.deepspeed, key, *file);
  }
  value = *file;
  return {};
}

bool is_adam(const std::string& type) {
  return type.empty() || type == "Adam" || type == "AdamW" || type == "adam" || type == "adamw";
}

// --param-dtype, which the file may repeat or leave open.
Status settle_dtype(const EngineOptions& o, DeepSpeedConfig& config) {
  const auto flag = o.scheme.given.find("--param-dtype");
  if (flag == o.scheme.given.end()) return {};
  Scheme words = Zero12Options{};  // whose dtype has the words of all
  TESSERA_TRY(apply_given(GivenFlags{*flag}, words));
  const DType given = std::get<Zero12Options>(words).param_dtype;
  if (config.dtype && *config.dtype != given) {
    return contradiction("--param-dtype", name_of(given), o.deepspeed, "the dtype",
                         name_of(*config.dtype));
  }
  config.scheme = with_dtype(config.scheme, given);
  return {};
}

// What training would do otherwise than the file says.
Status check_trainable(const EngineOptions& o, const DeepSpeedConfig& config) {
  if (config.adam.states != 2 || !is_adam(config.optimizer)) {
    return Status(Code::not_supported,
                  fmt::format("{}: optimizer.type is {}, but training steps with AdamW alone: take "
                              "AdamW, or leave the optimizer out",
                              o.deepspeed, config.optimizer));
  }
  if (config.scheduler.empty()) return {};
  return Status(Code::not_supported,
                fmt::format("{}: scheduler {} is not followed in training: take it out, and give "
                            "--schedule, --warmup and --min-lr",
                            o.deepspeed, config.scheduler));
}

}  // namespace

Status apply_deepspeed(const EngineOptions& o, Rank ranks, Training& out) {
  TESSERA_TRY(decided_by_file(o));
  TESSERA_ASSIGN(DeepSpeedConfig config, load_deepspeed_config(o.deepspeed, ranks));
  TrainingOptions& t = out.training;
  TESSERA_TRY(settle(o, "--batch", "train_micro_batch_size_per_gpu", config.micro_batch, t.batch));
  TESSERA_TRY(settle(o, "--accumulation", "gradient_accumulation_steps", config.accumulation,
                     t.accumulation));
  TESSERA_TRY(
      settle(o, "--max-grad-norm", "gradient_clipping", config.gradient_clipping, t.max_grad_norm));
  TESSERA_TRY(settle_dtype(o, config));
  GivenFlags own = o.scheme.given;  // what DeepSpeed's file cannot know
  own.erase("--param-dtype");
  TESSERA_TRY(apply_given(own, config.scheme));
  out.scheme = config.scheme;
  if (o.real) TESSERA_TRY(check_trainable(o, config));
  if (!config.optimizer.empty()) {
    TESSERA_TRY(settle(o, "--optimizer-states", "optimizer.type", std::optional(config.adam.states),
                       t.adam.states));
  }
  config.adam.states = t.adam.states;
  config.adam.state_type = t.adam.state_type;
  t.adam = config.adam;
  t.sync_every_micro_batch = config.stage >= 2;  // stages 0 and 1 reduce at the boundary
  const auto warnings = config.warnings(o.deepspeed, config.scheme, o.real);
  out.warnings.insert(out.warnings.end(), warnings.begin(), warnings.end());
  if (o.real && !config.gradient_clipping && t.max_grad_norm == 0) {
    out.warnings.push_back(
        fmt::format("{}: gradient_clipping is missing: DeepSpeed 0.19 then clips gradients at a "
                    "norm of 1, 0.9.0 and this run do not: say it, 0 for none",
                    o.deepspeed));
  }
  out.deepspeed = std::move(config);
  return {};
}

}  // namespace tessera::cli
