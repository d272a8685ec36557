// SPDX-License-Identifier: Apache-2.0
// The options that choose and tune a sharding scheme, shared by `simulate` and `ops`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/owner_options.h"
#include "cli/options/zero12_options.h"
#include "cli/options/zero3_options.h"
#include "tessera/scheme.h"

namespace tessera::cli {

/// An option that was given, and its group in the help.
struct GivenOption {
  std::string name, group;
};

struct SchemeOptions {
  std::string scheme = "fully_shard";
  std::vector<std::string> units;
  std::string wrap_class;
  std::string reshard = "auto";
  std::string param_dtype = "bfloat16";
  std::string reduce_dtype = "float32";
  std::string backward_prefetch = "pre";
  bool forward_prefetch = false;
  bool no_limit_all_gathers = false;
  bool use_orig_params = false;
  bool offload_params = false;
  bool torch_1_13 = false;
  std::int32_t shard_group = 0;
  std::int32_t reshard_group = 0;
  std::int32_t max_input_buffers = 1;
  std::vector<std::string> ignored_modules;
  std::vector<std::string> ignored_parameters;
  std::int64_t bucket_cap = 25 << 20;
  std::int64_t first_bucket_cap = 1 << 20;
  bool find_unused = false;
  bool bucket_views = false;
  bool static_graph = false;
  std::string comm_hook = "none";
  OwnerArguments owner;
  Zero12Arguments zero12;
  Zero3Arguments zero3;
  std::vector<GivenOption> given;  // some are for some schemes only
};

/// Whether the option, "--units", was given.
bool was_given(const SchemeOptions& options, std::string_view name);

/// --param-dtype, if it was given.
std::optional<DType> given_param_dtype(const SchemeOptions& options);

void add_scheme_options(CLI::App& command, SchemeOptions& options);

/// Fails: invalid_argument, naming an option that the scheme does not know.
Result<Scheme> resolve_scheme(const SchemeOptions& options, const Model& model);

}  // namespace tessera::cli
