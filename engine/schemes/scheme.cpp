// SPDX-License-Identifier: Apache-2.0
#include "tessera/scheme.h"

#include <fmt/format.h>

#include <array>

namespace tessera {
namespace {

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

Status check_one_dtype(const Scheme& scheme) {
  const auto* const sharded = std::get_if<FullyShardOptions>(&scheme);
  if (sharded == nullptr || !sharded->plan) return {};
  for (const WrapUnit& unit : sharded->plan->units) {
    const UnitOverrides& own = unit.overrides;
    const bool mixed = own.mixed_precision.value_or(true);
    const DType gathered =
        own.param_dtype.value_or(mixed ? sharded->param_dtype : sharded->sharded_dtype);
    if (gathered == sharded->param_dtype) continue;
    return Status(
        Code::not_supported,
        fmt::format("the wrap plan gathers parameters of a unit in {}, those of others in "
                    "{}: training computes in one dtype, leave param_dtype and "
                    "mixed_precision out of the plan (simulate takes them)",
                    name_of(gathered), name_of(sharded->param_dtype)));
  }
  return {};
}

Result<std::unique_ptr<Engine>> make_engine(Runtime& runtime, const Model& model,
                                            const Scheme& scheme) {
  return std::visit(Make{runtime, model}, scheme);
}

}  // namespace tessera
