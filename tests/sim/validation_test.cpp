// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tessera/sim/error_range.h"
#include "tessera/sim/simulate.h"
#include "tests/sim/vector_sink.h"

namespace tessera::sim {
namespace {

const char* const small_gpt2 = R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 1000,
  "n_positions": 64, "n_embd": 256, "n_layer": 16, "n_head": 2})";

SimulateOptions options_for(Bytes memory) {
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1), .steps = 2};
  options.cluster.gpu.memory = memory;
  options.scheme = Fsdp1Options{};
  options.training.sequence_length = 64;
  return options;
}

}  // namespace

TEST_CASE("a run like the validated ones gets their error, another is said to be far", "[error]") {
  SimulatedRun run{"mosaic", "H100 SXM 80 GB", "dgx-h100", "full_shard", 64, Numel{7'000'000'000}};
  const ErrorRange near = step_time_error(run);
  CHECK(near.near);
  CHECK(near.p90 > 0);
  CHECK(near.text.find("step time within") == 0);
  run.gpu = "H100 PCIe 80 GB";  // another GPU, though its name begins alike
  CHECK_FALSE(step_time_error(run).near);
  run.ranks = 100'000;
  const ErrorRange far = step_time_error(run);
  CHECK_FALSE(far.near);
  CHECK(far.text.find("step time: nothing near was ever validated") == 0);
  CHECK(far.text.find("ranks") != std::string::npos);
}

TEST_CASE("options that no validated run had are named", "[error]") {
  const auto model = load_model(TESSERA_SOURCE_DIR "/examples/models/llama-3-8b.json");
  SimulateOptions usual{.cluster = *load_cluster("dgx-h100", 1)};
  usual.stack = *load_profile("torchtitan");
  usual.training.sequence_length = 4096;
  const FullyShardOptions half{.param_dtype = DType::bfloat16};
  const auto text = [&](const SimulateOptions& options) {
    return step_time_error(run_of(*model, options)).text;
  };
  const auto with = [&](auto&& change) {
    SimulateOptions options = usual;
    FullyShardOptions scheme = half;
    change(options, scheme);
    options.scheme = scheme;
    return text(options);
  };
  CHECK(with([](auto&, auto&) {}).find("step time within") == 0);
  CHECK(with([](auto&, auto& scheme) {
          scheme.reshard_after_forward = ReshardAfterForward::never;
        }).find("its reshard_after_forward is auto") != std::string::npos);
  CHECK(with([](auto&, auto& scheme) {
          scheme.sharded_dtype = DType::bfloat16;
        }).find("its sharded_dtype is float32") != std::string::npos);
  CHECK(with([](auto& options, auto&) {
          options.training.accumulation = 512;
        }).find("its steps have 1 micro-batch") != std::string::npos);
}

TEST_CASE("the nearest is of the same machine and scheme, and what was fitted to nothing is said",
          "[error]") {
  SimulatedRun run{"eager", "H100 SXM 80 GB", "dgx-h100", "fully_shard", 64, Numel{8'000'000'000}};
  run.beside = {"nothing slows it down on purpose"};
  const ErrorRange range = step_time_error(run);
  INFO(range.text);
  CHECK(range.text.find("runs of torchtitan FSDP2") != std::string::npos);
  CHECK(range.text.find("but its profile is torchtitan and it has 8 ranks and nothing slows") !=
        std::string::npos);
  CHECK(range.text.find("; systems that no profile was fitted to are within 19 % for 9 in 10 of "
                        "46 runs; ") != std::string::npos);
  CHECK(range.p90 == Approx(0.193));
}

TEST_CASE("a stack and scheme that were validated are nearer than the same GPU with others",
          "[error]") {
  SimulatedRun run{"deepspeed", "H100 SXM 80 GB", "dgx-h100", "zero3", 16, Numel{8'000'000'000}};
  run.sequence = 2048;
  run.tokens = 65536;
  run.checkpointing = "none";
  const std::string text = step_time_error(run).text;
  INFO(text);
  CHECK(text.find("runs of DeepSpeed ZeRO-3 on Azure") != std::string::npos);
  CHECK(text.find("but its GPUs are A100") != std::string::npos);
}

TEST_CASE("collectives of one node say nothing of two, nor the other way round", "[error]") {
  const CollectiveShape one{OpKind::all_reduce, Bytes{1 << 20}, 8, 1, 8};
  const CollectiveShape two{OpKind::all_reduce, Bytes{1 << 20}, 16, 2, 8};
  const auto near = [](const char* cluster, const CollectiveShape& shape) {
    return collective_error(cluster, shape, shape.bytes, shape.bytes).near;
  };
  CHECK(near("a3-megagpu-8g", two));
  CHECK_FALSE(near("a3-megagpu-8g", one));
  CHECK(near("nd-h100-v5", one));
  CHECK_FALSE(near("nd-h100-v5", two));
}

TEST_CASE("few runs are not nine in ten, and fitted ones say so", "[error]") {
  const SimulatedRun run{"torchtitan",        "H100 SXM 80 GB", "dgx-h100", "fully_shard", 8,
                         Numel{8'000'000'000}};
  const std::string text = step_time_error(run).text;
  CHECK(text.find("for all 6 runs of torchtitan FSDP2") != std::string::npos);
  CHECK(text.find("which its profile was fitted to") != std::string::npos);
}

TEST_CASE("memory was compared for fully_shard alone", "[error]") {
  SimulatedRun run{"eager", "H100 SXM 80 GB", "dgx-h100", "fully_shard", 8, Numel{8'000'000'000}};
  CHECK(memory_error(run).near);
  run.scheme = "zero1";
  CHECK_FALSE(memory_error(run).near);
  CHECK(memory_error(run).text.find("fully_shard") != std::string::npos);
}

TEST_CASE("unusual settings are not taken for validated ones", "[error]") {
  const auto model = load_model(TESSERA_SOURCE_DIR "/examples/models/llama-3-8b.json");
  REQUIRE(model.ok());
  SimulateOptions usual{.cluster = *load_cluster("dgx-h100", 1)};
  usual.stack = *load_profile("torchtitan");
  FullyShardOptions half{.param_dtype = DType::bfloat16};
  usual.scheme = half;
  usual.training.sequence_length = 8192;
  REQUIRE(step_time_error(run_of(*model, usual)).near);
  REQUIRE(memory_error(run_of(*model, usual)).near);
  FullyShardOptions offloaded = half, hybrid = half;
  offloaded.offload_params = true;
  hybrid.shard_group = 4;
  const auto check = [&](const char* named, bool memory, const auto& change) {
    SimulateOptions options = usual;
    change(options);
    const SimulatedRun run = run_of(*model, options);
    const ErrorRange time = step_time_error(run), held = memory_error(run);
    INFO(time.text << " / " << held.text);
    CHECK_FALSE(time.near);
    CHECK(held.near != memory);
    CHECK((memory ? held : time).text.find(named) != std::string::npos);
  };
  using O = SimulateOptions;
  check("sequences have", true, [](O& o) { o.training.sequence_length = 32; });
  check("micro-batches have", true, [](O& o) { o.training.batch = 64; });
  check("16 bit", true, [](O& o) { o.scheme = FullyShardOptions{}; });
  check("offloads nothing", true, [&](O& o) { o.scheme = offloaded; });
  check("shard together", true, [&](O& o) { o.scheme = hybrid; });
  check("two states", true, [](O& o) { o.training.adam.states = 0; });
  check("eager", true, [](O& o) { o.stack.loss = StackProfile::Loss::chunked; });
  check("eager", true, [](O& o) { o.stack.fp8 = true; });
  check("GPUs are", false, [](O& o) { o.cluster = *load_cluster("mi300x", 1); });
  check("ranks", true, [](O& o) { o.cluster.nodes = 12'500; });
  check("on purpose", true, [](O& o) { o.slow_ranks = {{0, 1.5}}; });
  check("on purpose", true, [](O& o) { o.slow_links = {{0, 1.5}}; });
  check("full or none", true,
        [](O& o) { o.training.checkpointing = ActivationCheckpointing::operators; });
}

TEST_CASE("experts, frozen parameters and tiny models were never validated", "[error]") {
  SimulateOptions options{.cluster = *load_cluster("dgx-h100", 1)};
  options.scheme = FullyShardOptions{.param_dtype = DType::bfloat16};
  options.training.sequence_length = 1024;
  const auto text = [&](const char* file) {
    const auto model = load_model(std::string(TESSERA_SOURCE_DIR "/examples/models/") + file);
    REQUIRE(model.ok());
    const SimulatedRun run = run_of(*model, options);
    CHECK_FALSE(memory_error(run).near);
    return step_time_error(run).text;
  };
  CHECK(text("mixtral-8x7b.json").find("no experts") != std::string::npos);
  CHECK(text("lora.json").find("parameters are trained") != std::string::npos);
  CHECK(text("llama-tiny.json").find("parameters") != std::string::npos);
}

TEST_CASE("collectives are as sure as those of their cluster, operation and nodes", "[error]") {
  const CollectiveShape shape{OpKind::all_reduce, Bytes{1 << 20}, 8, 1, 8};
  const Bytes least{1 << 15}, most{1 << 30};
  CHECK(collective_error("dgx-h100", shape, least, most).near);
  CHECK_FALSE(collective_error("dgx-h100, changed", shape, least, most).near);
  CHECK_FALSE(collective_error("dgx-h100", shape, Bytes{1}, most).near);
  CollectiveShape many = shape;
  many.nodes = 1000;
  CHECK_FALSE(collective_error("dgx-h100", many, least, most).near);
}

TEST_CASE("a changed cluster or profile is not the shipped one", "[error]") {
  const auto text = cluster_text("dgx-h100");
  REQUIRE(text.ok());
  CHECK(name_unless_changed(*load_cluster("dgx-h100", 2)) == "dgx-h100");
  CHECK(name_unless_changed(*parse_cluster(*text, "copy.json", 1)) == "dgx-h100");
  std::string changed = *text;
  changed.replace(changed.find("\"gpus_per_node\": 8"), 18, "\"gpus_per_node\": 4");
  CHECK(name_unless_changed(*parse_cluster(changed, "mine.json", 1)) == "dgx-h100, changed");
  StackProfile profile = *load_profile("mosaic");
  CHECK(name_unless_changed(profile) == "mosaic");
  profile.dropout = !profile.dropout;
  CHECK(name_unless_changed(profile) == "mosaic, changed");
}

TEST_CASE("autocast computes in bf16 from float32 parameters and casts them", "[stack]") {
  const Cluster cluster = *load_cluster("dgx-h100", 1);
  StackProfile stack;
  ComputeCost cost{.matmul_flops = 2.0 * (1LL << 36), .dtype = DType::float32};
  cost.matmuls = {{4096, 4096, 4096}};
  const Time single = make_cost_model(cluster, stack)->compute(cost);
  stack.autocast = true;
  const Time cast = make_cost_model(cluster, stack)->compute(cost);
  cost.dtype = DType::bfloat16;
  CHECK(cast == make_cost_model(cluster, stack)->compute(cost));
  CHECK(cast < single / 4);
  const auto model = parse_model(small_gpt2, "gpt2");
  REQUIRE(model.ok());
  const auto casts = [&] {
    double bytes = 0;
    for (const Module& module : adapted(*model, stack).modules) bytes += module.cost.backward_bytes;
    return bytes;
  };
  CHECK(casts() > 0);
  stack.autocast = false;
  CHECK(casts() == 0);
}

TEST_CASE("a caching allocator fits where only unused blocks are too many", "[memory]") {
  const auto model = parse_model(R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 1000,
      "n_positions": 64, "n_embd": 1024, "n_layer": 16, "n_head": 2})",
                                 "gpt2");
  REQUIRE(model.ok());
  auto options = options_for({});
  options.scheme = Fsdp1Options{.torch_order = true};
  const auto peak = [&](StackProfile::Allocator allocator) {
    options.stack.allocator = allocator;
    const auto free = simulate(*model, options);
    REQUIRE(free.ok());
    return free->peak_reserved;
  };
  const Bytes events = peak(StackProfile::Allocator::events);
  const Bytes cached = peak(StackProfile::Allocator::pytorch);
  options.cluster.gpu.memory = std::min(events, cached) - Bytes{64 << 20};
  const auto again = simulate(*model, options);
  CHECK(again->fits);
  CHECK(again->cache_returns > 0);
  options.stack.allocator = StackProfile::Allocator::events;
  CHECK_FALSE(simulate(*model, options)->fits);
  options.stack.allocator = StackProfile::Allocator::pytorch;
  options.cluster.gpu.memory = Bytes{1 << 20};
  CHECK_FALSE(simulate(*model, options)->fits);
}

struct Held {
  double reserved, allocated;

  double unused() const { return reserved - allocated; }
};

// At most, after two steps of FSDP1 with so many layers of Llama.
Held held_by_fsdp1(int layers, bool torch_order, StackProfile::Allocator allocator) {
  const auto model =
      parse_model(fmt::format(R"({{"architectures": ["LlamaForCausalLM"], "vocab_size": 32000,
          "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": {},
          "num_attention_heads": 32}})",
                              layers),
                  "llama");
  REQUIRE(model.ok());
  auto options = options_for({});
  options.cluster = *load_cluster("dgx-h100", 8);
  options.cluster.gpu.memory = {};
  options.stack = *load_profile("eager");
  options.stack.allocator = allocator;
  options.scheme = Fsdp1Options{
      .param_dtype = DType::bfloat16, .reduce_dtype = DType::float32, .torch_order = torch_order};
  options.training.sequence_length = 2048;
  options.training.checkpointing = ActivationCheckpointing::full;
  test::VectorSink sink;
  options.sink = &sink;
  const auto summary = simulate(*model, options);
  REQUIRE(summary.ok());
  return {static_cast<double>(summary->peak_reserved.value),
          static_cast<double>(sink.peaks.back().allocated.value)};
}

TEST_CASE("what FSDP1 reserves beside what it allocates does not grow with layers", "[memory]") {
  using Allocator = StackProfile::Allocator;
  const auto allocator = GENERATE(Allocator::events, Allocator::pytorch);
  INFO(name_of(allocator));
  const Held few = held_by_fsdp1(8, false, allocator);
  const Held many = held_by_fsdp1(64, false, allocator);
  INFO(few.reserved / few.allocated << " of 8 layers, " << many.reserved / many.allocated);
  CHECK(many.unused() < 2 * few.unused());
  if (allocator == Allocator::pytorch) return;
  CHECK(held_by_fsdp1(64, true, allocator).unused() > 5 * many.unused());
}

TEST_CASE("what would have fitted is found by trying", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  auto options = options_for(Bytes{});
  options.training.batch = 64;
  const Bytes needed = simulate(*model, options)->peak_reserved;
  options.training.checkpointing = ActivationCheckpointing::full;
  const Bytes checkpointed = simulate(*model, options)->peak_reserved;
  REQUIRE(checkpointed < needed);
  options.training.checkpointing = ActivationCheckpointing::none;
  options.cluster.gpu.memory = checkpointed;
  const auto found = what_would_fit(*model, options);
  CHECK(std::find(found.begin(), found.end(), "--checkpointing full") != found.end());
  CHECK(std::any_of(found.begin(), found.end(),
                    [](const std::string& flags) { return flags.starts_with("--batch "); }));
  options.cluster.gpu.memory = Bytes{1 << 20};
  CHECK(what_would_fit(*model, options).empty());
  options.ends_when_full = true;
  const auto ended = simulate(*model, options);
  CHECK(ended.status().code() == Code::out_of_memory);
  CHECK(ended.status().message().find("is out of memory in step 0") != std::string::npos);
}

TEST_CASE("a trace without recorded ranks has no rows of buffers, and all else", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  auto options = options_for(Bytes{});
  test::VectorSink all, none;
  options.sink = &all;
  options.recorded_ranks = {0};
  REQUIRE(simulate(*model, options).ok());
  options.sink = &none;
  options.recorded_ranks.clear();
  REQUIRE(simulate(*model, options).ok());
  CHECK(all.buffers.size() > 10);
  CHECK(none.buffers.empty());
  CHECK(none.labels == all.labels);
  REQUIRE(none.peaks.size() == all.peaks.size());
  CHECK(none.peaks.front().by_class == all.peaks.front().by_class);
}

TEST_CASE("the context takes its part of a GPU's memory", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  auto options = options_for(Bytes{std::int64_t{1} << 40});
  const Bytes needed = simulate(*model, options)->peak_reserved;
  options.cluster.gpu.memory = needed + Bytes{1 << 20};
  options.stack.context = Bytes{1 << 20};
  CHECK(simulate(*model, options)->fits);
  options.stack.context = Bytes{2 << 20};
  CHECK_FALSE(simulate(*model, options)->fits);
  options.stack.context = Bytes{std::int64_t{1} << 40};
  CHECK(simulate(*model, options).status().code() == Code::invalid_argument);
}

TEST_CASE("operators and every k-th block lie between no and full checkpointing", "[memory]") {
  const auto model = parse_model(small_gpt2, "gpt2");
  auto options = options_for(Bytes{std::int64_t{1} << 40});
  options.training.batch = 64;
  const auto peak = [&](ActivationCheckpointing kind, std::int32_t every) {
    options.training.checkpointing = kind;
    options.training.checkpoint_every = every;
    const auto summary = simulate(*model, options);
    REQUIRE(summary.ok());
    return summary->peak_reserved;
  };
  const Bytes none = peak(ActivationCheckpointing::none, 1);
  const Bytes full = peak(ActivationCheckpointing::full, 1);
  const Bytes operators = peak(ActivationCheckpointing::operators, 1);
  const Bytes second = peak(ActivationCheckpointing::full, 2);
  CHECK(full < operators);
  CHECK(operators < none);
  CHECK(full < second);
  CHECK(second < none);
}

}  // namespace tessera::sim
