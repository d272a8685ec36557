// SPDX-License-Identifier: Apache-2.0
#include "cli/options/deepspeed_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tessera/deepspeed.h"

namespace tessera::cli {
namespace {

// What a file never says.
constexpr std::array<std::string_view, 4> beside = {"--param-dtype", "--policy", "--live-budget",
                                                    "--ranks-per-node"};

Status decided_by_file(const EngineOptions& o) {
  for (const GivenOption& option : o.scheme.given) {
    const bool of_scheme =
        option.group.starts_with("Sharding") || option.group.find(':') != std::string::npos;
    if (!of_scheme || option.name == "--deepspeed") continue;
    if (std::find(beside.begin(), beside.end(), option.name) != beside.end()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{}: the file of --deepspeed decides: change it there", option.name));
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
  if (was_given(o.scheme, option) && value != *file) {
    return contradiction(option, value, o.deepspeed, key, *file);
  }
  value = *file;
  return {};
}

// What DeepSpeed's file cannot know: Tessera's own policy.
void set_policy(const EngineOptions& o, Zero3Options& zero3) {
  const auto resolved = resolve_zero3(o.scheme.zero3, {}, 0);
  if (!resolved.ok()) return;
  const auto& asked = std::get<Zero3Options>(*resolved);
  zero3.policy = asked.policy;
  zero3.live_budget = asked.live_budget;
  if (zero3.plus_plus.quantized_gradients) {
    zero3.plus_plus.ranks_per_node = o.scheme.zero3.ranks_per_node;
  }
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
  if (const auto given = given_param_dtype(o.scheme)) {
    if (config.dtype && *config.dtype != *given) {
      return contradiction("--param-dtype", name_of(*given), o.deepspeed, "the dtype",
                           name_of(*config.dtype));
    }
    config.scheme = with_dtype(config.scheme, *given);
  }
  if (auto* zero3 = std::get_if<Zero3Options>(&config.scheme)) set_policy(o, *zero3);
  out.scheme = config.scheme;
  t.adam = config.adam;
  t.sync_every_micro_batch = config.stage >= 2;  // stages 0 and 1 reduce at the boundary
  if (!config.without_meaning.empty()) {
    out.warnings.push_back(fmt::format("{}: no meaning here: {}", o.deepspeed,
                                       fmt::join(config.without_meaning, ", ")));
  }
  return {};
}

}  // namespace tessera::cli
