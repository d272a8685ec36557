// SPDX-License-Identifier: Apache-2.0
#include "cli/options/zero3_options.h"

#include "cli/options/checks.h"

namespace tessera::cli {

void add_zero3_options(CLI::App& command, Zero3Arguments& a) {
  const auto elements = [&command](const char* name, Numel& value, double least, const char* text) {
    command.add_option(name, value.value, text)
        ->check(within(least, std::int64_t{1} << 50))
        ->capture_default_str()
        ->group(zero3_group);
  };
  Zero3Options& o = a.options;
  command.add_option("--policy", a.policy, "strict: within the budget; compatible: as DeepSpeed")
      ->check(CLI::IsMember({"strict", "compatible"}))
      ->capture_default_str()
      ->group(zero3_group);
  command
      .add_option("--live-budget", a.live_budget,
                  "strict: bytes of gathered parameters; 0: by --max-live-parameters")
      ->check(within(0, std::int64_t{1} << 52))
      ->capture_default_str()
      ->group(zero3_group);
  elements("--prefetch-bucket", o.prefetch_bucket, 0, "Gather ahead so much at once; 0: do not");
  elements("--max-reuse-distance", o.max_reuse_distance, 0, "Keep what is used again that soon");
  elements("--max-live-parameters", o.max_live_parameters, 0, "Gather nothing ahead beyond this");
  elements("--persistence-threshold", o.persistence_threshold, 0,
           "Parameters up to this stay gathered");
  elements("--reduce-bucket", o.reduce_bucket, 0, "Gradients that are reduced together");
  elements("--sub-group-size", o.sub_group_size, 1, "Shards that the optimizer steps together");
  command
      .add_option("--leaf-modules", o.leaf_modules,
                  "Modules, by class or path, that are gathered with all below them")
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows a value is MODEL
      ->default_str("")
      ->group(zero3_group);
  command
      .add_option("--secondary-group", o.plus_plus.secondary_group,
                  "ZeRO++: ranks that backward gathers from; 1: all")
      ->check(within(1, 1'000'000))
      ->capture_default_str()
      ->group(zero3_group);
  command.add_flag("--quantized-weights", o.plus_plus.quantized_weights, "ZeRO++: gather in 8 bit")
      ->group(zero3_group);
  command
      .add_flag("--quantized-gradients", o.plus_plus.quantized_gradients,
                "ZeRO++: reduce in 4 bit, inside of nodes and then between them")
      ->group(zero3_group);
  command.add_option("--ranks-per-node", a.ranks_per_node, "Of --quantized-gradients")
      ->check(within(1, 1'000'000))
      ->capture_default_str()
      ->group(zero3_group);
  add_offload_options(command, zero3_group, a.offload);
}

Result<Scheme> resolve_zero3(const Zero3Arguments& a, const GivenDtypes& given, Index shard_group) {
  Zero3Options options = a.options;
  options.param_dtype = given.param.value_or(DType::bfloat16);
  options.reduce_dtype = given.reduce;
  options.shard_group = shard_group;
  options.policy = a.policy == "strict" ? Zero3Policy::strict : Zero3Policy::compatible;
  if (options.plus_plus.quantized_gradients) options.plus_plus.ranks_per_node = a.ranks_per_node;
  apply_offload(a.offload, options);
  if (a.live_budget > 0) options.live_budget = Bytes{a.live_budget};
  return Scheme(options);
}

}  // namespace tessera::cli
