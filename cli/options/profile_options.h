// SPDX-License-Identifier: Apache-2.0
// The options that say which software a simulated run is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tessera/lora.h"
#include "tessera/scheme.h"
#include "tessera/sim/cluster.h"
#include "tessera/sim/stack_profile.h"

namespace tessera::cli {

struct ProfileOptions {
  std::string profile = "eager";
  std::string attention;     // empty: the profile's
  std::string loss;          // likewise
  std::string allocator;     // likewise
  std::string matmul_dtype;  // likewise
  bool no_dropout = false;
};

void add_profile_options(CLI::App& command, ProfileOptions& options);

/// What of the options, and of the cluster's file, changes nothing about runs of `model`:
/// sentences.
std::vector<std::string> without_effect(const ProfileOptions& options, const Model& model,
                                        const sim::Cluster& cluster);

/// Fails: invalid_argument, naming an option that says what such a run cannot do.
Status check_software(const ProfileOptions& options, const sim::StackProfile& stack,
                      const Scheme& scheme, const std::optional<LoraOptions>& lora);

/// Fails: as load_profile.
Result<sim::StackProfile> resolve_profile(const ProfileOptions& options);

}  // namespace tessera::cli
