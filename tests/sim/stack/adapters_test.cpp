// SPDX-License-Identifier: Apache-2.0
// What adapters beside frozen weights cost.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/lora.h"
#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"
#include "tests/sim/vector_sink.h"

namespace tessera::sim {
namespace {

const char* const frozen_llama = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 100,
  "hidden_size": 8192, "num_hidden_layers": 2, "intermediate_size": 24576,
  "num_attention_heads": 64, "num_key_value_heads": 64, "max_position_embeddings": 512,
  "torch_dtype": "bfloat16"})";

Model base() { return *parse_model(frozen_llama, "llama"); }

Model with(const char* lora) { return *with_lora(base(), *parse_lora(lora)); }

struct AdaptedRun {
  Time compute = 0;
  std::int64_t peak = 0;
  Bytes buffers{};
};

AdaptedRun adapted_run(const Model& model) {
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1), .steps = 2};
  options.stack = *load_profile("eager");
  options.stack.allocator = StackProfile::Allocator::planned;
  Fsdp1Options scheme;
  scheme.original_dtype = DType::bfloat16;
  scheme.use_orig_params = true;
  options.scheme = scheme;
  options.training.batch = 8;
  options.training.sequence_length = 512;
  test::VectorSink sink;
  options.sink = &sink;
  const auto summary = simulate(model, options);
  REQUIRE(summary.ok());
  return {sink.steps.back().compute.front(), summary->peak_reserved.value,
          sink.peaks.back().by_class[static_cast<std::size_t>(MemoryClass::buffers)]};
}

}  // namespace

TEST_CASE("a frozen matrix has one matmul in backward", "[stack][lora]") {
  const auto all = static_cast<double>(adapted_run(base()).compute);
  const auto few = static_cast<double>(adapted_run(with("rank=8,target=q_proj")).compute);
  CHECK(few < 0.8 * all);
  CHECK(few > 0.6 * all);
}

TEST_CASE("FLOPs of a model are those that its training needs", "[stack][lora]") {
  const double all = flops_per_sample(base(), 512);
  const double few = flops_per_sample(with("rank=8,target=q_proj"), 512);
  CHECK(few < 0.75 * all);
  CHECK(few > 0.66 * all);
}

TEST_CASE("inputs of frozen matrices are not kept", "[stack][lora]") {
  const std::int64_t attention = adapted_run(with("rank=8,target=q_proj")).peak;
  const std::int64_t both = adapted_run(with("rank=8,target=q_proj,down_proj")).peak;
  const std::int64_t inner = std::int64_t{8 * 512} * 2 * 24576;
  CHECK(both - attention > inner);
}

TEST_CASE("what an adapter returns is scaled and added, and what it is given may be dropped",
          "[stack][lora]") {
  const auto cost_of = [](const Model& model) {
    ModuleCost all;
    for (const ModuleId id : model.forward) {
      const ModuleCost& cost = model.module(id).cost;
      all.elementwise_bytes = all.elementwise_bytes + cost.elementwise_bytes;
      all.kernels += cost.kernels;
    }
    return all;
  };
  const ModuleCost plain = cost_of(base());
  const ModuleCost added = cost_of(with("rank=8,target=up_proj"));
  const ModuleCost copied = cost_of(with("rank=8,target=up_proj,base=nf4"));
  const ModuleCost dropped = cost_of(with("rank=8,target=up_proj,dropout=0.1"));
  // Of two layers' outputs and inputs, forward and backward together, which is three times forward.
  const double outputs = 2 * 24576.0, inputs = 2 * 8192.0;
  const auto moved = [](const ModuleCost& cost) { return 3 * cost.elementwise_bytes.linear; };
  CHECK(moved(added) - moved(plain) == Approx(14 * outputs + 6 * inputs));
  CHECK(moved(copied) - moved(added) == Approx(4 * outputs));
  CHECK(moved(dropped) - moved(added) == Approx(10 * inputs));
  CHECK(added.kernels - plain.kernels == 2 * 4);
  CHECK(copied.kernels - added.kernels == 2);
  CHECK(dropped.kernels - added.kernels == 2);
  CHECK(parse_lora("dropout=1").status().message().find("dropout=1") != std::string::npos);
  CHECK(to_text(*parse_lora("rank=4,dropout=0.1,target=q_proj")) ==
        "rank=4,alpha=16,target=q_proj,dropout=0.1");
}

TEST_CASE("a packed base holds a quarter and is unpacked whenever it is used", "[stack][lora]") {
  const Model packed = with("rank=8,target=q_proj,base=nf4");
  const ParameterId weight =
      packed.module(packed.find_module("model.layers.0.mlp.up_proj")).parameters.front();
  CHECK(packed.parameter(weight).name == "model.layers.0.mlp.up_proj.qweight");
  CHECK(packed.parameter(weight).numel().value == 8192 * 24576 / 4);
  CHECK(packed.buffers.size() == 2 * 7);
  CHECK(packed.cost_note.find("frozen weights are counted as") != std::string::npos);
  const AdaptedRun plain = adapted_run(with("rank=8,target=q_proj"));
  CHECK(adapted_run(packed).compute > plain.compute);
  CHECK(plain.buffers == Bytes{});  // every rank has all scales, of FSDP's, too
  CHECK(adapted_run(packed).buffers ==
        Bytes{std::int64_t{8} * (4 * 8192 * 8192 + 3 * 8192 * 24576) / 64});
  CHECK(adapted_run(packed).peak < plain.peak);
}

TEST_CASE("adapters are near to no run that trains everything", "[error][lora]") {
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1)};
  CHECK(run_of(base(), options).frozen.empty());
  CHECK(run_of(with("rank=8"), options).frozen == "LoRA");
  const SimulatedRun packed = run_of(with("rank=8,base=nf4"), options);
  CHECK(packed.frozen == "QLoRA");
  Model frozen = base();
  frozen.parameters.front().requires_grad = false;
  CHECK(run_of(frozen, options).frozen == "some");
}

TEST_CASE("lora reads the base that it writes", "[lora]") {
  const auto lora = parse_lora("rank=4,base=nf4,target=q_proj");
  REQUIRE(lora.ok());
  CHECK(lora->packed);
  CHECK(parse_lora(to_text(*lora))->packed);
  CHECK(parse_lora("base=int3").status().code() == Code::invalid_argument);
}

}  // namespace tessera::sim
