// SPDX-License-Identifier: Apache-2.0
// FSDP1 against that of torch 2.15 on random trees: frozen parameters, mixed precision, no_sync,
// units without parameters, strategies per unit.
#include <fmt/format.h>

#include "engine/schemes/fsdp1/marks.h"
#include "tessera/fsdp1.h"
#include "tests/schemes/recorded_torch.h"

namespace tessera {
namespace {

std::string moved(const char* kind, const Record& r, const View& in, const View& out) {
  return fmt::format("{} {} {} {} {}", kind, r.cause.unit, in.numel.value, out.numel.value,
                     name_of(in.dtype));
}

std::string line_of(const Recording& recording, const Record& r) {
  if (r.kind == Record::Kind::host_wait) return "L";
  if (r.kind == Record::Kind::release) {
    const auto& buffer = recording.buffers[r.buffer.index()];
    const std::string& name = buffer.name;
    const std::size_t at = name.rfind(".unsharded");
    return at == std::string::npos ? "" : "-" + name.substr(0, at);
  }
  if (r.kind != Record::Kind::op) return "";
  if (const auto* o = std::get_if<AllGather>(&r.op.what))
    return moved("AG", r, o->input, o->output);
  if (const auto* o = std::get_if<ReduceScatter>(&r.op.what)) {
    return moved("RS", r, o->input, o->output);
  }
  if (const auto* o = std::get_if<AllReduce>(&r.op.what)) {
    return fmt::format("AR {} {} {}", r.cause.unit, o->input.numel.value, name_of(o->input.dtype));
  }
  if (!std::holds_alternative<Compute>(r.op.what) || r.cause.module.empty()) return "";
  return fmt::format("{} {}", r.cause.phase == Phase::backward ? "B" : "F", r.cause.module);
}

Result<std::unique_ptr<Engine>> make(const test::RunJson& run, Runtime& runtime,
                                     const Model& model) {
  const test::RunJson& given = run["options"];
  const auto dtype = [&](const char* key) {
    return given[key] == "bfloat16" ? DType::bfloat16 : DType::float32;
  };
  Fsdp1Options options{.param_dtype = dtype("param_dtype"),
                       .reduce_dtype = dtype("reduce_dtype"),
                       .torch_order = true};
  for (int k = 0; k < 5; ++k) {
    const auto strategy = static_cast<ShardingStrategy>(k);
    if (given["strategy"] == std::vector{"full_shard", "shard_grad_op", "no_shard", "hybrid_shard",
                                         "hybrid_shard_zero2"}[static_cast<std::size_t>(k)]) {
      options.strategy = strategy;
    }
  }
  if (given["strategy"].get<std::string>().starts_with("hybrid")) options.shard_group = 2;
  const std::string prefetch = given["backward_prefetch"];
  options.backward_prefetch = prefetch == "pre"    ? BackwardPrefetch::pre
                              : prefetch == "post" ? BackwardPrefetch::post
                                                   : BackwardPrefetch::none;
  options.limit_all_gathers = given["limit_all_gathers"];
  options.use_orig_params = given["use_orig_params"];
  TESSERA_ASSIGN(options.plan, read_wrap_plan(run["plan"].dump(), "plan", model));
  return fsdp1(runtime, model, options);
}

TEST_CASE("fsdp1 does what FSDP1 of torch 2.15 did with random trees, line by line",
          "[shard][golden]") {
  for (const test::RunJson& run : test::recorded_runs("fsdp1.json")) {
    const auto engine = [&](Runtime& runtime, const Model& model) {
      return make(run, runtime, model);
    };
    test::require_equal_lines(run, test::play_again(run, engine, line_of));
  }
}

}  // namespace
}  // namespace tessera
