// SPDX-License-Identifier: Apache-2.0
#include "cli/options/scheme_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "cli/options/checks.h"
#include "cli/options/names_of.h"

namespace tessera::cli {
namespace {

const std::map<std::string, DType> dtypes = {
    {"float32", DType::float32}, {"fp32", DType::float32},    {"bfloat16", DType::bfloat16},
    {"bf16", DType::bfloat16},   {"float16", DType::float16}, {"fp16", DType::float16}};
const std::map<std::string, ReshardAfterForward> reshards = {
    {"auto", ReshardAfterForward::automatic},
    {"always", ReshardAfterForward::always},
    {"never", ReshardAfterForward::never},
    {"to_group", ReshardAfterForward::to_group}};
const std::map<std::string, BackwardPrefetch> prefetches = {{"none", BackwardPrefetch::none},
                                                            {"pre", BackwardPrefetch::pre},
                                                            {"post", BackwardPrefetch::post}};
const std::map<std::string, ShardingStrategy> strategies = {
    {"full_shard", ShardingStrategy::full_shard},
    {"shard_grad_op", ShardingStrategy::shard_grad_op},
    {"no_shard", ShardingStrategy::no_shard},
    {"hybrid_shard", ShardingStrategy::hybrid_shard},
    {"hybrid_shard_zero2", ShardingStrategy::hybrid_shard_zero2}};

using MakeHook = std::shared_ptr<CommHook> (*)();
const std::map<std::string, MakeHook> hooks = {
    {"none", +[]() -> std::shared_ptr<CommHook> { return nullptr; }},
    {"fp16", fp16_compress_hook},
    {"bf16", bf16_compress_hook},
    // Early: a simulation has few steps.
    {"powersgd", +[] { return power_sgd_hook({.start_iteration = 2}); }}};

// The options of one family of schemes have a group of their own in the help.
constexpr const char* fsdp2 = "FSDP2: fully_shard";
constexpr const char* fsdp1_family =
    "FSDP1: full_shard, shard_grad_op, no_shard, hybrid_shard[_zero2]";
constexpr const char* ddp = "DDP: replicate";
constexpr const char* sharding = "Sharding";

std::string_view family_of(const std::string& scheme) {
  if (scheme == "fully_shard") return fsdp2;
  if (scheme == "sharded_data_parallel") return owner_group;
  if (scheme == "zero1" || scheme == "zero2") return zero12_group;
  if (scheme == "zero3") return zero3_group;
  return scheme == "replicate" ? ddp : fsdp1_family;
}

// Options of the group `sharding` that only some families know.
const std::map<std::string, std::vector<std::string_view>> known_to = {
    {"--units", {fsdp1_family, fsdp2}},
    {"--wrap", {fsdp1_family, fsdp2}},
    {"--reduce-dtype", {fsdp1_family, fsdp2, owner_group, zero12_group, zero3_group}},
    {"--reduce-bucket", {zero12_group, zero3_group}},
    {"--offload-params", {fsdp1_family, fsdp2}},
    {"--ignore-modules", {fsdp1_family, fsdp2, ddp}},
    {"--ignore-parameters", {fsdp1_family, fsdp2}},
    {"--shard-group", {fsdp1_family, fsdp2, zero3_group}}};

bool knows(std::string_view family, const GivenOption& option) {
  const auto found = known_to.find(option.name);
  if (found != known_to.end()) {
    return std::find(found->second.begin(), found->second.end(), family) != found->second.end();
  }
  const bool of_a_family = option.group == fsdp2 || option.group == fsdp1_family ||
                           option.group == ddp || option.group == owner_group ||
                           option.group == zero12_group || option.group == zero3_group;
  return !of_a_family || option.group == family;
}

Status check_given(const SchemeOptions& o) {
  for (const GivenOption& option : o.given) {
    if (knows(family_of(o.scheme), option)) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} means nothing to the scheme {}: leave it out, see docs/cli.md",
                              option.name, o.scheme));
  }
  return {};
}

// What --units, --wrap and the ignore options say together.
struct Wrapping {
  std::vector<std::string> units;
  std::optional<WrapPlan> plan;
};

Result<Wrapping> wrapping_of(const SchemeOptions& o, const Model& model) {
  if (!o.wrap_class.empty() && !o.units.empty()) {
    return Status(Code::invalid_argument, "give --units or --wrap, not both");
  }
  if (!o.ignored_modules.empty() && !o.ignored_parameters.empty()) {
    return Status(Code::invalid_argument,
                  "give --ignore-modules or --ignore-parameters, not both: the parameters of an "
                  "ignored module are ignored");
  }
  const bool ignores = !o.ignored_modules.empty() || !o.ignored_parameters.empty();
  if (o.wrap_class.empty() && !ignores) return Wrapping{o.units, {}};
  for (const std::string& path : o.units) {
    if (model.find_module(path).valid()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("--units: '{}' is no module of {}", path, model.name));
  }
  WrapPolicy policy = ClassWrap{{o.wrap_class}};
  if (o.wrap_class.empty()) {
    policy = LambdaWrap{[units = o.units](const Module& m) {
      if (units.empty()) return m.is_block;
      return std::find(units.begin(), units.end(), m.path) != units.end();
    }};
  }
  auto plan =
      plan_wrapping(model, policy,
                    {.ignored_modules = o.ignored_modules, .ignored_states = o.ignored_parameters});
  if (!plan.ok() && !o.wrap_class.empty()) {
    return Status(plan.status().code(),
                  fmt::format("--wrap {}: {}", o.wrap_class, plan.status().message()));
  }
  TESSERA_TRY(plan.status());
  return Wrapping{{}, std::move(*plan)};
}

void add_fully_shard_options(CLI::App& command, SchemeOptions& o) {
  command.add_option("--reshard-after-forward", o.reshard, "Free parameters after forward")
      ->check(names_of(reshards))
      ->group(fsdp2);
  command.add_option("--reshard-group", o.reshard_group, "to_group: ranks of the smaller group")
      ->check(within(1, 8'000'000))
      ->default_str("")
      ->group(fsdp2);
  command
      .add_option("--max-input-buffers", o.max_input_buffers,
                  "Inputs of reduce_scatters alive before compute waits for the oldest")
      ->check(within(1, 1000))
      ->group(fsdp2);
}

void add_fsdp1_options(CLI::App& command, SchemeOptions& o) {
  command.add_option("--backward-prefetch", o.backward_prefetch, "Gather the next unit early")
      ->check(names_of(prefetches))
      ->group(fsdp1_family);
  command.add_flag("--forward-prefetch", o.forward_prefetch, "Gather early in forward, too")
      ->group(fsdp1_family);
  command.add_flag("--no-limit-all-gathers", o.no_limit_all_gathers, "Never hold the host back")
      ->group(fsdp1_family);
  command.add_flag("--use-orig-params", o.use_orig_params, "Align parameters to 16 bytes")
      ->group(fsdp1_family);
  command
      .add_flag("--torch-1-13", o.torch_1_13, "Prefetch forward from the root only, as 1.13 did")
      ->group(fsdp1_family);
}

void add_replicate_options(CLI::App& command, SchemeOptions& o) {
  command.add_option("--bucket-cap", o.bucket_cap, "Bytes at which a bucket is closed")
      ->check(within(1, std::int64_t{1} << 50))
      ->group(ddp);
  command.add_option("--first-bucket-cap", o.first_bucket_cap, "The same, of the first bucket")
      ->check(within(1, std::int64_t{1} << 50))
      ->group(ddp);
  command.add_flag("--find-unused-parameters", o.find_unused, "Unused parameters count as ready")
      ->group(ddp);
  command.add_flag("--gradient-as-bucket-view", o.bucket_views, "Gradients live in the buckets")
      ->group(ddp);
  command.add_flag("--static-graph", o.static_graph, "Every step uses the same parameters")
      ->group(ddp);
  command.add_option("--comm-hook", o.comm_hook, "How a bucket is compressed before it is reduced")
      ->check(names_of(hooks))
      ->group(ddp);
}

}  // namespace

bool was_given(const SchemeOptions& o, std::string_view name) {
  return std::any_of(o.given.begin(), o.given.end(),
                     [&](const GivenOption& option) { return option.name == name; });
}

std::optional<DType> given_param_dtype(const SchemeOptions& o) {
  return was_given(o, "--param-dtype") ? std::optional(dtypes.at(o.param_dtype)) : std::nullopt;
}

void add_scheme_options(CLI::App& command, SchemeOptions& o) {
  command.add_option("--scheme", o.scheme, "How parameters are sharded")
      ->check(CLI::IsMember({"fully_shard", "full_shard", "shard_grad_op", "no_shard",
                             "hybrid_shard", "hybrid_shard_zero2", "replicate",
                             "sharded_data_parallel", "zero1", "zero2", "zero3"}))
      ->group(sharding);
  command.add_option("--units", o.units, "Module paths that become sharding units, a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows the list is MODEL
      ->default_str("")
      ->group(sharding);
  command.add_option("--wrap", o.wrap_class, "Every module of this class becomes a unit")
      ->group(sharding);
  command.add_option("--param-dtype", o.param_dtype, "Gathered parameters and their gradients")
      ->check(names_of(dtypes))
      ->group(sharding);
  command.add_option("--reduce-dtype", o.reduce_dtype, "Gradient reduction")
      ->check(names_of(dtypes))
      ->group(sharding);
  command
      .add_option("--shard-group", o.shard_group,
                  "Hybrid, MiCS: consecutive ranks that shard together")
      ->check(within(1, 8'000'000))
      ->default_str("")
      ->group(sharding);
  command.add_flag("--offload-params", o.offload_params, "Keep shards in host memory")
      ->group(sharding);
  command.add_option("--ignore-modules", o.ignored_modules, "Paths that are not sharded, a,b,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("")
      ->group(sharding);
  command.add_option("--ignore-parameters", o.ignored_parameters, "The same of parameters")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("")
      ->group(sharding);
  add_fully_shard_options(command, o);
  add_fsdp1_options(command, o);
  add_replicate_options(command, o);
  add_owner_options(command, o.owner);
  add_zero12_options(command, o.zero12);
  add_zero3_options(command, o.zero3);
  command.parse_complete_callback([&command, &o] {
    for (const CLI::Option* option : command.get_options()) {
      if (option->count() == 0) continue;
      o.given.push_back({"--" + option->get_single_name(), option->get_group()});
    }
  });
}

Result<Scheme> resolve_scheme(const SchemeOptions& o, const Model& model) {
  TESSERA_TRY(check_given(o));
  TESSERA_ASSIGN(const auto wrapping, wrapping_of(o, model));
  const DType param = dtypes.at(o.param_dtype);
  const DType reduce = dtypes.at(o.reduce_dtype);
  if (o.scheme == "fully_shard") {
    return Scheme(FullyShardOptions{.units = wrapping.units,
                                    .plan = wrapping.plan,
                                    .reshard_after_forward = reshards.at(o.reshard),
                                    .reshard_group = o.reshard_group,
                                    .shard_group = o.shard_group,
                                    .param_dtype = param,
                                    .reduce_dtype = reduce,
                                    .offload_params = o.offload_params,
                                    .reduce_scatter_max_input_buffers = o.max_input_buffers});
  }
  if (o.scheme == "replicate") {
    return Scheme(ReplicateOptions{.bucket_cap = Bytes{o.bucket_cap},
                                   .first_bucket_cap = Bytes{o.first_bucket_cap},
                                   .find_unused_parameters = o.find_unused,
                                   .gradient_as_bucket_view = o.bucket_views,
                                   .static_graph = o.static_graph,
                                   .dtype = was_given(o, "--param-dtype") ? param : DType::float32,
                                   .comm_hook = hooks.at(o.comm_hook)()});
  }
  GivenDtypes given;
  given.param = given_param_dtype(o);
  if (was_given(o, "--reduce-dtype")) given.reduce = reduce;
  if (o.scheme == "sharded_data_parallel") return resolve_owner(o.owner, given);
  if (o.scheme == "zero1" || o.scheme == "zero2") {
    return resolve_zero12(o.zero12, o.scheme == "zero1" ? 1 : 2, o.zero3.options.reduce_bucket,
                          given);
  }
  if (o.scheme == "zero3") return resolve_zero3(o.zero3, given, o.shard_group);
  return Scheme(Fsdp1Options{.units = wrapping.units,
                             .plan = wrapping.plan,
                             .strategy = strategies.at(o.scheme),
                             .shard_group = o.shard_group,
                             .backward_prefetch = prefetches.at(o.backward_prefetch),
                             .forward_prefetch = o.forward_prefetch,
                             .limit_all_gathers = !o.no_limit_all_gathers,
                             .use_orig_params = o.use_orig_params,
                             .param_dtype = param,
                             .reduce_dtype = reduce,
                             .offload_params = o.offload_params,
                             .torch_1_13 = o.torch_1_13});
}

}  // namespace tessera::cli
