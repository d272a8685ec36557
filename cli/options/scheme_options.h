// SPDX-License-Identifier: Apache-2.0
// The options that choose and tune a sharding scheme, shared by `train`, `simulate` and `ops`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/option_flags.h"
#include "tessera/scheme.h"

namespace tessera::cli {

struct SchemeOptions {
  std::string scheme = "fully_shard";
  /// The command's own default of --param-dtype, where a scheme tells it from that of shards.
  std::string param_dtype = "bfloat16";
  GivenFlags given;  // --scheme, too
};

void add_scheme_options(CLI::App& command, SchemeOptions& options);

/// Sets the options of `scheme` that were given by these flags. Fails: invalid_argument, naming a
/// flag that means nothing to the scheme, or what its value must be.
Status apply_given(const GivenFlags& given, Scheme& scheme);

/// Fails: invalid_argument, naming a flag that means nothing to the scheme.
Result<Scheme> resolve_scheme(const SchemeOptions& options, const Model& model);

}  // namespace tessera::cli
