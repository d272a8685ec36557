// SPDX-License-Identifier: Apache-2.0
// The options that say which software a simulated run is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

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

/// Fails: as load_profile.
Result<sim::StackProfile> resolve_profile(const ProfileOptions& options);

}  // namespace tessera::cli
