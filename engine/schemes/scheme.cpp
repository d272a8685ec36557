// SPDX-License-Identifier: Apache-2.0
#include "tessera/scheme.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace tessera {
namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

std::string text(bool value) { return value ? "true" : "false"; }
std::string text(DType value) { return std::string(name_of(value)); }
std::string text(Bytes value) { return std::to_string(value.value); }
std::string text(std::optional<DType> value) { return value ? text(*value) : "own"; }
std::string text(Numel value) { return std::to_string(value.value); }
std::string text(Offload::Device value) {
  static constexpr std::array names = {"none", "cpu", "nvme"};
  return names[static_cast<std::size_t>(value)];
}
std::string text(const std::vector<std::string>& paths) {
  return fmt::format("{}", fmt::join(paths, ","));
}

std::string units_text(const std::vector<std::string>& units, const std::optional<WrapPlan>& plan) {
  return plan ? fmt::format("{} units of a plan, {} parameters ignored", plan->units.size(),
                            plan->ignored.size())
              : text(units);
}

struct OptionsOf {
  Options operator()(const FullyShardOptions& o) const {
    static constexpr std::array reshard = {"auto", "always", "never", "to_group"};
    return {{"units", units_text(o.units, o.plan)},
            {"reshard_after_forward", reshard[static_cast<std::size_t>(o.reshard_after_forward)]},
            {"reshard_group", std::to_string(o.reshard_group)},
            {"shard_group", std::to_string(o.shard_group)},
            {"offload_params", text(o.offload_params)},
            {"sharded_dtype", text(o.sharded_dtype)},
            {"param_dtype", text(o.param_dtype)},
            {"reduce_dtype", text(o.reduce_dtype)}};
  }
  Options operator()(const Fsdp1Options& o) const {
    static constexpr std::array prefetch = {"none", "pre", "post"};
    const DType param = o.param_dtype.value_or(o.original_dtype);
    return {{"units", units_text(o.units, o.plan)},
            {"shard_group", std::to_string(o.shard_group)},
            {"backward_prefetch", prefetch[static_cast<std::size_t>(o.backward_prefetch)]},
            {"forward_prefetch", text(o.forward_prefetch)},
            {"limit_all_gathers", text(o.limit_all_gathers)},
            {"use_orig_params", text(o.use_orig_params)},
            {"sharded_dtype", text(o.original_dtype)},
            {"param_dtype", text(param)},
            {"reduce_dtype", text(o.reduce_dtype.value_or(param))},
            {"keep_low_precision_grads", text(o.keep_low_precision_grads)},
            {"offload_params", text(o.offload_params)},
            {"torch_1_13", text(o.torch_1_13)}};
  }
  Options operator()(const ReplicateOptions& o) const {
    return {{"bucket_cap", text(o.bucket_cap)},
            {"first_bucket_cap", text(o.first_bucket_cap)},
            {"find_unused_parameters", text(o.find_unused_parameters)},
            {"gradient_as_bucket_view", text(o.gradient_as_bucket_view)},
            {"static_graph", text(o.static_graph)},
            {"broadcast_buffers", text(o.broadcast_buffers)},
            {"ignored_modules", text(o.ignored_modules)},
            {"comm_hook", o.comm_hook ? std::string(o.comm_hook->name()) : "none"},
            {"param_dtype", text(o.dtype)}};
  }
  Options operator()(const ShardedDataParallelOptions& o) const {
    return {{"reduce_buffer_size", std::to_string(o.reduce_buffer_size.value)},
            {"reduce_dtype", text(o.reduce_dtype)},
            {"broadcast_dtype", text(o.broadcast_dtype)},
            {"broadcast_buffers", text(o.broadcast_buffers)},
            {"sync_models_at_startup", text(o.sync_models_at_startup)},
            {"group_size", o.groups ? "groups" : std::to_string(o.group_size)},
            {"param_dtype", text(o.dtype)}};
  }
  Options operator()(const Zero12Options& o) const {
    return {{"reduce_bucket", text(o.reduce_bucket)},
            {"allgather_bucket", text(o.allgather_bucket)},
            {"overlap_comm", text(o.overlap_comm)},
            {"reduce_scatter", text(o.reduce_scatter)},
            {"round_robin_gradients", text(o.round_robin_gradients)},
            {"param_dtype", text(o.param_dtype)},
            {"reduce_dtype", text(o.reduce_dtype.value_or(o.param_dtype))}};
  }
  Options operator()(const Zero3Options& o) const {
    const bool strict = o.policy == Zero3Policy::strict;
    return {{"policy", strict ? "strict" : "compatible"},
            {"live_budget", o.live_budget ? text(*o.live_budget) : "auto"},
            {"prefetch_bucket", text(o.prefetch_bucket)},
            {"max_reuse_distance", text(o.max_reuse_distance)},
            {"max_live_parameters", text(o.max_live_parameters)},
            {"persistence_threshold", text(o.persistence_threshold)},
            {"model_persistence_threshold", text(o.model_persistence_threshold)},
            {"reduce_bucket", text(o.reduce_bucket)},
            {"sub_group_size", text(o.sub_group_size)},
            {"shard_group", std::to_string(o.shard_group)},
            {"secondary_group", std::to_string(o.plus_plus.secondary_group)},
            {"quantized_weights", text(o.plus_plus.quantized_weights)},
            {"quantized_gradients", text(o.plus_plus.quantized_gradients)},
            {"ranks_per_node", std::to_string(o.plus_plus.ranks_per_node)},
            {"offload_param", text(o.offload_param.device)},
            {"offload_optimizer", text(o.offload_optimizer.device)},
            {"offload_ratio", fmt::format("{:g}", o.offload_optimizer.ratio)},
            {"buffer_count",
             fmt::format("{},{}", o.offload_param.buffer_count, o.offload_optimizer.buffer_count)},
            {"buffer_size", text(o.offload_param.buffer_size)},
            {"pipeline_read", text(o.offload_optimizer.pipeline_read)},
            {"pipeline_write", text(o.offload_optimizer.pipeline_write)},
            {"nvme_smallest", text(o.aio.smallest)},
            {"use_gds", text(o.aio.use_gds)},
            {"leaf_modules", fmt::format("{}", fmt::join(o.leaf_modules, ","))},
            {"param_dtype", text(o.param_dtype)},
            {"reduce_dtype", text(o.reduce_dtype.value_or(o.param_dtype))}};
  }
};

struct Make {
  Runtime& runtime;
  const Model& model;
  Result<std::unique_ptr<Engine>> operator()(const FullyShardOptions& o) const {
    TESSERA_ASSIGN(std::unique_ptr<Engine> engine, fully_shard(runtime, model, o));
    return engine;
  }
  Result<std::unique_ptr<Engine>> operator()(const Fsdp1Options& o) const {
    return fsdp1(runtime, model, o);
  }
  Result<std::unique_ptr<Engine>> operator()(const ReplicateOptions& o) const {
    return replicate(runtime, model, o);
  }
  Result<std::unique_ptr<Engine>> operator()(const ShardedDataParallelOptions& o) const {
    TESSERA_ASSIGN(std::unique_ptr<Engine> engine, sharded_data_parallel(runtime, model, o));
    return engine;
  }
  Result<std::unique_ptr<Engine>> operator()(const Zero12Options& o) const {
    return zero12(runtime, model, o);
  }
  Result<std::unique_ptr<Engine>> operator()(const Zero3Options& o) const {
    TESSERA_ASSIGN(std::unique_ptr<Engine> engine, zero3(runtime, model, o));
    return engine;
  }
};

}  // namespace

std::string_view name_of(ShardingStrategy strategy) {
  static constexpr std::array<std::string_view, 5> names = {
      "full_shard", "shard_grad_op", "no_shard", "hybrid_shard", "hybrid_shard_zero2"};
  return names[static_cast<std::size_t>(strategy)];
}

std::string_view name_of(const Scheme& scheme) {
  if (const auto* fsdp1 = std::get_if<Fsdp1Options>(&scheme)) return name_of(fsdp1->strategy);
  if (std::holds_alternative<ShardedDataParallelOptions>(scheme)) return "sharded_data_parallel";
  if (const auto* zero = std::get_if<Zero12Options>(&scheme)) {
    return zero->stage == 1 ? "zero1" : "zero2";
  }
  if (std::holds_alternative<Zero3Options>(scheme)) return "zero3";
  return std::holds_alternative<ReplicateOptions>(scheme) ? "replicate" : "fully_shard";
}

DType compute_dtype(const Scheme& scheme) {
  if (const auto* o = std::get_if<Fsdp1Options>(&scheme)) {
    return o->param_dtype.value_or(o->original_dtype);
  }
  if (const auto* o = std::get_if<ReplicateOptions>(&scheme)) return o->dtype;
  if (const auto* o = std::get_if<ShardedDataParallelOptions>(&scheme)) {
    return o->dtype.value_or(DType::float32);
  }
  if (const auto* o = std::get_if<Zero12Options>(&scheme)) return o->param_dtype;
  if (const auto* o = std::get_if<Zero3Options>(&scheme)) return o->param_dtype;
  return std::get<FullyShardOptions>(scheme).param_dtype;
}

std::vector<std::pair<std::string, std::string>> options_of(const Scheme& scheme) {
  return std::visit(OptionsOf{}, scheme);
}

Result<std::unique_ptr<Engine>> make_engine(Runtime& runtime, const Model& model,
                                            const Scheme& scheme) {
  return std::visit(Make{runtime, model}, scheme);
}

}  // namespace tessera
