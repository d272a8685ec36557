// SPDX-License-Identifier: Apache-2.0
#include "cli/options/profile_options.h"

#include <fmt/format.h>

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
