// SPDX-License-Identifier: Apache-2.0
// Schemes by name and a JSON object of options, named as options_of (tessera/scheme.h) does.
#include <fmt/format.h>

#include <type_traits>

#include "c/handles.h"
#include "engine/text/json_reader.h"
#include "tessera/deepspeed.h"

namespace tessera::c {
namespace {

constexpr std::int64_t unset = -1;

class Reader : public JsonReader {
 public:
  using JsonReader::JsonReader;

  std::vector<std::string> texts(const char* key) {
    std::vector<std::string> all;
    if (!has(key)) return all;
    for (const nlohmann::json& entry : json().at(key)) {
      if (!entry.is_string()) return fail(key, "must be a list of strings"), all;
      all.push_back(entry.get<std::string>());
    }
    return all;
  }
  template <class Quantity>
  void quantity(const char* key, Quantity& value) {
    const std::int64_t given = integer(key, 0, unset);
    if (given == unset) return;
    if constexpr (std::is_integral_v<Quantity>) {
      value = static_cast<Quantity>(given);
    } else {
      value = Quantity{given};
    }
  }
  void maybe_dtype(const char* key, std::optional<DType>& value) {
    if (has(key)) value = dtype({key}, DType::float32);
  }
};

Scheme fully_shard_of(Reader& json) {
  json.only({"units", "reshard_after_forward", "shard_group", "param_dtype", "reduce_dtype",
             "offload_params"});
  FullyShardOptions o;
  o.units = json.texts("units");
  const std::string reshard = json.text("reshard_after_forward", "auto");
  if (reshard == "always") {
    o.reshard_after_forward = ReshardAfterForward::always;
  } else if (reshard == "never") {
    o.reshard_after_forward = ReshardAfterForward::never;
  } else if (reshard != "auto") {
    json.fail("reshard_after_forward", "must be auto, always or never");
  }
  json.quantity("shard_group", o.shard_group);
  o.param_dtype = json.dtype({"param_dtype"}, o.param_dtype);
  o.reduce_dtype = json.dtype({"reduce_dtype"}, o.reduce_dtype);
  o.offload_params = json.boolean("offload_params", false);
  return o;
}

Scheme fsdp1_of(Reader& json, ShardingStrategy strategy) {
  json.only({"units", "use_orig_params", "forward_prefetch", "limit_all_gathers", "param_dtype",
             "reduce_dtype", "offload_params"});
  Fsdp1Options o;
  o.strategy = strategy;
  o.units = json.texts("units");
  o.use_orig_params = json.boolean("use_orig_params", true);
  o.forward_prefetch = json.boolean("forward_prefetch", o.forward_prefetch);
  o.limit_all_gathers = json.boolean("limit_all_gathers", o.limit_all_gathers);
  json.maybe_dtype("param_dtype", o.param_dtype);
  json.maybe_dtype("reduce_dtype", o.reduce_dtype);
  o.offload_params = json.boolean("offload_params", false);
  return o;
}

Scheme replicate_of(Reader& json) {
  json.only(
      {"bucket_cap", "first_bucket_cap", "gradient_as_bucket_view", "static_graph", "param_dtype"});
  ReplicateOptions o;
  json.quantity("bucket_cap", o.bucket_cap);
  json.quantity("first_bucket_cap", o.first_bucket_cap);
  o.gradient_as_bucket_view = json.boolean("gradient_as_bucket_view", false);
  o.static_graph = json.boolean("static_graph", false);
  o.dtype = json.dtype({"param_dtype"}, o.dtype);
  return o;
}

Scheme owner_of(Reader& json) {
  json.only({"reduce_buffer_size", "reduce_dtype", "param_dtype"});
  ShardedDataParallelOptions o;
  json.quantity("reduce_buffer_size", o.reduce_buffer_size);
  json.maybe_dtype("reduce_dtype", o.reduce_dtype);
  json.maybe_dtype("param_dtype", o.dtype);
  return o;
}

Scheme zero12_of(Reader& json, std::int32_t stage) {
  json.only({"reduce_bucket", "allgather_bucket", "overlap_comm", "param_dtype", "reduce_dtype"});
  Zero12Options o;
  o.stage = stage;
  json.quantity("reduce_bucket", o.reduce_bucket);
  json.quantity("allgather_bucket", o.allgather_bucket);
  o.overlap_comm = json.boolean("overlap_comm", false);
  o.param_dtype = json.dtype({"param_dtype"}, o.param_dtype);
  json.maybe_dtype("reduce_dtype", o.reduce_dtype);
  return o;
}

Scheme zero3_of(Reader& json) {
  json.only({"prefetch_bucket", "reduce_bucket", "max_live_parameters", "persistence_threshold",
             "sub_group_size", "param_dtype", "reduce_dtype"});
  Zero3Options o;
  json.quantity("prefetch_bucket", o.prefetch_bucket);
  json.quantity("reduce_bucket", o.reduce_bucket);
  json.quantity("max_live_parameters", o.max_live_parameters);
  json.quantity("persistence_threshold", o.persistence_threshold);
  json.quantity("sub_group_size", o.sub_group_size);
  o.param_dtype = json.dtype({"param_dtype"}, o.param_dtype);
  json.maybe_dtype("reduce_dtype", o.reduce_dtype);
  return o;
}

std::optional<Scheme> named(const std::string& name, Reader& json) {
  if (name == "fully_shard") return fully_shard_of(json);
  if (name == "full_shard") return fsdp1_of(json, ShardingStrategy::full_shard);
  if (name == "shard_grad_op") return fsdp1_of(json, ShardingStrategy::shard_grad_op);
  if (name == "no_shard") return fsdp1_of(json, ShardingStrategy::no_shard);
  if (name == "replicate") return replicate_of(json);
  if (name == "sharded_data_parallel") return owner_of(json);
  if (name == "zero1") return zero12_of(json, 1);
  if (name == "zero2") return zero12_of(json, 2);
  if (name == "zero3") return zero3_of(json);
  return std::nullopt;
}

}  // namespace

Result<Scheme> scheme_of(const std::string& name, const char* options, Rank ranks) {
  const std::string text = options == nullptr ? "{}" : options;
  if (name == "deepspeed") {
    TESSERA_ASSIGN(const DeepSpeedConfig config,
                   parse_deepspeed_config(text, "options of deepspeed", ranks));
    return config.scheme;
  }
  TESSERA_ASSIGN(const nlohmann::json json, parse_json(text, "options of " + name));
  Reader reader(json, "options of " + name);
  const std::optional<Scheme> scheme = named(name, reader);
  if (!scheme) {
    return Status(
        Code::invalid_argument,
        fmt::format("scheme {}: must be fully_shard, full_shard, shard_grad_op, no_shard, "
                    "replicate, sharded_data_parallel, zero1, zero2, zero3 or deepspeed",
                    in_quotes(name)));
  }
  TESSERA_TRY(reader.status());
  return *scheme;
}

}  // namespace tessera::c
