// SPDX-License-Identifier: Apache-2.0
#include "cli/options/profile_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/command.h"

namespace tessera::cli {

void add_profile_options(CLI::App& command, ProfileOptions& o) {
  const char* stack = "Software";
  command
      .add_option("--profile", o.profile,
                  fmt::format("How operations are run: {}, or a JSON file",
                              fmt::join(sim::shipped_profile_names(), ", ")))
      ->group(stack);
  command
      .add_option("--attention-kernel", o.attention,
                  "Instead of the profile's: a kernel of the cluster's file, best, or unfused")
      ->default_str("")
      ->group(stack);
  command.add_option("--loss", o.loss, "Instead of the profile's: how logits become a loss")
      ->check(CLI::IsMember({"eager", "fused", "chunked"}))
      ->default_str("")
      ->group(stack);
  command
      .add_option("--allocator", o.allocator,
                  "Instead of the profile's: how device memory is reserved and reused")
      ->check(CLI::IsMember({"events", "pytorch", "expandable", "planned"}))
      ->default_str("")
      ->group(stack);
  command
      .add_option("--matmul-dtype", o.matmul_dtype,
                  "Instead of the profile's: what linear layers of blocks multiply in")
      ->check(CLI::IsMember({"bf16", "fp8"}))
      ->default_str("")
      ->group(stack);
  command.add_flag("--no-dropout", o.no_dropout, "Train without dropout")->group(stack);
}

namespace {

Status check_matmuls(const ProfileOptions& profile, const Scheme& scheme) {
  if (profile.matmul_dtype != "bf16" || compute_dtype(scheme) != DType::float32) return {};
  return refused(
      "--matmul-dtype bf16 means nothing where parameters are float32: add "
      "--param-dtype bf16, or leave it out");
}

// But for fp8 it computes in one way, and plans its bytes for that.
Status check_program(const ProfileOptions& profile, const sim::StackProfile& stack) {
  if (stack.program != sim::StackProfile::Program::train) return {};
  for (const auto& [flag, given] : {std::pair("--attention-kernel", !profile.attention.empty()),
                                    {"--loss", !profile.loss.empty()},
                                    {"--allocator", !profile.allocator.empty()},
                                    {"--no-dropout", profile.no_dropout}}) {
    if (!given) continue;
    return refused(
        fmt::format("{} means nothing to profile {}, which is of tessera train as it is: "
                    "leave it out",
                    flag, stack.name));
  }
  return {};
}

Status check_dropout(const std::optional<LoraOptions>& lora, const sim::StackProfile& stack) {
  if (!lora || lora->dropout == 0 || stack.dropout) return {};
  return refused(fmt::format(
      "--lora dropout means nothing where profile {} or --no-dropout trains without any: leave it "
      "out",
      stack.name));
}

}  // namespace

Status check_software(const ProfileOptions& profile, const sim::StackProfile& stack,
                      const Scheme& scheme, const std::optional<LoraOptions>& lora) {
  TESSERA_TRY(check_program(profile, stack));
  TESSERA_TRY(check_matmuls(profile, scheme));
  return check_dropout(lora, stack);
}

std::vector<std::string> without_effect(const ProfileOptions& o, const Model& model,
                                        const sim::Cluster& cluster) {
  std::vector<std::string> out = sim::idle_numbers(cluster);
  const auto needs = [&](const std::string& option, const char* what, auto&& has) {
    if (option.empty()) return;
    const bool any = std::any_of(model.modules.begin(), model.modules.end(),
                                 [&](const Module& m) { return has(m.cost); });
    if (!any)
      out.push_back(fmt::format("{} changes nothing: {} has no {}", option, model.name, what));
  };
  needs(o.no_dropout ? "--no-dropout" : "", "dropout",
        [](const ModuleCost& cost) { return cost.dropout > 0; });
  needs(o.loss.empty() ? "" : "--loss " + o.loss, "head that gives logits",
        [](const ModuleCost& cost) { return cost.logits > 0; });
  needs(o.attention.empty() ? "" : "--attention-kernel " + o.attention, "attention",
        [](const ModuleCost& cost) { return cost.attention.heads > 0; });
  if (!o.attention.empty() && cluster.gpu.attention.empty()) {
    out.push_back(
        fmt::format("--attention-kernel {} changes nothing: the file of cluster {} has "
                    "no curves of attention",
                    o.attention, cluster.name));
  }
  needs(o.matmul_dtype.empty() ? "" : "--matmul-dtype " + o.matmul_dtype, "linear layers in blocks",
        [](const ModuleCost& cost) { return !cost.linears.empty() && cost.logits == 0; });
  return out;
}

Result<sim::StackProfile> resolve_profile(const ProfileOptions& o) {
  TESSERA_ASSIGN(sim::StackProfile profile, sim::load_profile(o.profile));
  using Loss = sim::StackProfile::Loss;
  for (const Loss loss : {Loss::eager, Loss::fused, Loss::chunked}) {
    if (o.loss == sim::name_of(loss)) profile.loss = loss;
  }
  using Allocator = sim::StackProfile::Allocator;
  for (const Allocator allocator :
       {Allocator::events, Allocator::pytorch, Allocator::expandable, Allocator::planned}) {
    if (o.allocator == sim::name_of(allocator)) profile.allocator = allocator;
  }
  if (!o.attention.empty()) profile.attention = o.attention;
  if (!o.matmul_dtype.empty()) profile.fp8 = o.matmul_dtype == "fp8";
  if (o.no_dropout) profile.dropout = false;
  return profile;
}

}  // namespace tessera::cli
