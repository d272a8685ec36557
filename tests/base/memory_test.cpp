// SPDX-License-Identifier: Apache-2.0
// How much memory the schemes hold (torch test_fully_shard_memory.py, test_fsdp_memory.py).
#include <catch2/catch.hpp>
#include <map>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

// Four blocks between a first and a last layer, without activations.
Model blocks_model() {
  Model model = test::linear_model("blocks",
                                   {{"in", 32, 64},
                                    {"b0", 64, 64},
                                    {"b1", 64, 64},
                                    {"b2", 64, 64},
                                    {"b3", 64, 64},
                                    {"out", 64, 16}},
                                   {"in", "b0", "b1", "b2", "b3", "out"});
  for (Module& module : model.modules) module.cost.activation_bytes = {};
  return model;
}
const std::vector<std::string> blocks = {"b0", "b1", "b2", "b3"};

struct Peaks {
  Bytes init{}, forward{}, backward{};
  std::vector<Bytes> after_step;
};

// Live bytes on the device, phase by phase.
Peaks peaks(const Model& model, const Scheme& scheme, int steps, Rank ranks = 4) {
  Recording recording;
  auto runtime = make_recording_runtime(ranks, recording);
  auto engine = make_engine(*runtime, model, scheme);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  REQUIRE((*engine)->initialise([](ParameterId, Numel) { return 0.0F; }).ok());
  Peaks p;
  Bytes live{};
  std::size_t done = 0;
  Phase phase = Phase::init;
  auto read = [&] {
    for (; done < recording.records.size(); ++done) {
      const Record& r = recording.records[done];
      if (r.cause.phase != Phase::none) phase = r.cause.phase;
      if (r.kind != Record::Kind::allocate && r.kind != Record::Kind::release) continue;
      const auto& buffer = recording.buffers[r.buffer.index()];
      if (buffer.memory_class == MemoryClass::pinned_host) continue;
      live += buffer.bytes * (r.kind == Record::Kind::allocate ? 1 : -1);
      Bytes& peak = phase == Phase::init      ? p.init
                    : phase == Phase::forward ? p.forward
                                              : p.backward;
      if (phase != Phase::optimizer) peak = std::max(peak, live);
    }
  };
  read();
  for (int step = 0; step < steps; ++step) {
    REQUIRE(run_training_step(**engine, model, {}).ok());
    read();
    p.after_step.push_back(live);
  }
  return p;
}

Bytes bytes_of_unit(const Model& model, const std::string& path) {
  Bytes sum{};
  for (const Parameter& p : model.parameters) {
    if (p.name.starts_with(path + ".")) sum += bytes_of(p.numel(), DType::float32);
  }
  return sum;
}

// With two ranks, as PyTorch's own test: the bounds leave a fourth block's room only to them.
TEST_CASE("fully_shard stays within PyTorch's bounds", "[shard][memory]") {
  constexpr Rank ranks = 2;
  const Model model = blocks_model();
  const Bytes whole = bytes_of(model.parameter_count(), DType::float32);
  const Bytes block = bytes_of_unit(model, "b0");
  const Bytes rest = whole - 4 * block;
  const Bytes shard{whole.value / ranks};
  auto at_most = [](Bytes measured, Bytes bound) { CHECK(measured.value <= bound.value); };
  SECTION("with resharding") {
    const Peaks p = peaks(model, FullyShardOptions{.units = blocks}, 1, ranks);
    at_most(p.init, shard + block);
    at_most(p.forward, 3 * block + rest + shard);
    at_most(p.backward, 3 * block + rest + 2 * shard);
    CHECK(p.after_step[0] == 3 * shard);  // parameters and two moments: gradients are gone
  }
  SECTION("without resharding") {
    const Peaks p = peaks(
        model,
        FullyShardOptions{.units = blocks, .reshard_after_forward = ReshardAfterForward::never}, 1,
        ranks);
    at_most(p.forward, shard + whole + block);
    // PyTorch's test adds 16 MB for the rest's gradients and the like.
    at_most(p.backward, shard + whole + Bytes{block.value * 3 / 2} + rest);
  }
}

TEST_CASE("allocated memory returns to the same value after every step", "[shard][memory]") {
  using S = ShardingStrategy;
  const Scheme scheme = GENERATE(values<Scheme>(
      {FullyShardOptions{.units = blocks}, FullyShardOptions{.units = blocks, .shard_group = 2},
       FullyShardOptions{.units = blocks,
                         .reshard_after_forward = ReshardAfterForward::to_group,
                         .reshard_group = 2},
       FullyShardOptions{.units = blocks, .param_dtype = DType::bfloat16},
       FullyShardOptions{.units = blocks, .offload_params = true}, Fsdp1Options{.units = blocks},
       Fsdp1Options{.units = blocks, .strategy = S::shard_grad_op},
       Fsdp1Options{.units = blocks, .strategy = S::no_shard, .param_dtype = DType::bfloat16},
       Fsdp1Options{.units = blocks, .strategy = S::hybrid_shard, .shard_group = 2},
       Fsdp1Options{.units = blocks, .param_dtype = DType::bfloat16, .offload_params = true},
       ReplicateOptions{}, ReplicateOptions{.gradient_as_bucket_view = true},
       ReplicateOptions{.static_graph = true}}));
  INFO(name_of(scheme));
  const Peaks p = peaks(blocks_model(), scheme, 5);
  for (std::size_t step = 1; step < p.after_step.size(); ++step) {
    CHECK(p.after_step[step].value == p.after_step[0].value);
  }
}

TEST_CASE("setting up needs the shards and at most one parameter more", "[shard][memory]") {
  const Model model = blocks_model();
  const Bytes shard{bytes_of(model.parameter_count(), DType::float32).value / 4};
  const Bytes largest = bytes_of(Numel{64 * 64}, DType::float32);
  for (const Scheme& scheme :
       {Scheme(FullyShardOptions{.units = blocks}), Scheme(Fsdp1Options{.units = blocks})}) {
    CHECK(peaks(model, scheme, 0).init <= shard + largest);
  }
}

TEST_CASE("offloaded shards leave the device empty between steps", "[shard][memory]") {
  for (const Scheme& scheme : {Scheme(FullyShardOptions{.units = blocks, .offload_params = true}),
                               Scheme(Fsdp1Options{.units = blocks, .offload_params = true})}) {
    const Peaks p = peaks(blocks_model(), scheme, 2);
    CHECK(p.init.value == 0);
    const Bytes moments =
        2 * Bytes{bytes_of(blocks_model().parameter_count(), DType::float32).value / 4};
    CHECK(p.after_step[1].value <= moments.value);
  }
}

// The program computes the loss outside of the model: no hook has fired before its backward, so
// neither the head's gradient nor what a scheme gathers early is there at that moment.
TEST_CASE("the backward pass of the loss comes before gathers and the head's gradient",
          "[memory]") {
  const auto model = parse_model(
      R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 1000, "hidden_size": 64,
          "intermediate_size": 128, "num_hidden_layers": 4, "num_attention_heads": 4})",
      "llama");
  REQUIRE(model.ok());
  const Scheme scheme = GENERATE(Scheme{FullyShardOptions{}}, Scheme{Fsdp1Options{}});
  INFO(name_of(scheme));
  Recording recording;
  auto runtime = make_recording_runtime(4, recording);
  auto engine = make_engine(*runtime, *model, scheme);
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, *model, {.sequence_length = 32}).ok());
  std::vector<const Record*> early;  // of backward, until something of the head is written
  bool head_undone = false;
  for (const Record& r : recording.records) {
    const bool undoes = r.kind == Record::Kind::op && r.cause.phase == Phase::backward &&
                        r.cause.module == "lm_head";
    if (undoes) {
      const auto& work = std::get<Compute>(r.op.what);
      CHECK(work.cost.matmul_flops == 0);
      head_undone = true;
      break;
    }
    if (r.cause.phase == Phase::backward) early.push_back(&r);
  }
  CHECK(head_undone);
  for (const Record* r : early) {
    if (r->kind == Record::Kind::op) CHECK_FALSE(is_collective(kind_of(r->op)));
    if (r->kind != Record::Kind::allocate) continue;
    CHECK(recording.buffers[r->buffer.index()].memory_class == MemoryClass::temporary);
  }
}

// Bytes of all states that the optimizer made, on a rank.
Bytes bytes_of_states(const Model& model, const AdamOptions& adam, Status* refused = nullptr) {
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = make_engine(*runtime, model, FullyShardOptions{});
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {.adam = adam}).ok());
  if (refused != nullptr) {
    *refused = run_training_step(**engine, model, {.adam = {.state_type = StateType::int8}});
  }
  Bytes sum{};
  for (const auto& buffer : recording.buffers) {
    if (buffer.name.find(".exp_avg") != std::string::npos) sum += buffer.bytes;
  }
  return sum;
}

TEST_CASE("an optimizer's states take what their type does", "[memory]") {
  const Model model = blocks_model();
  const Bytes plain = bytes_of_states(model, {});
  REQUIRE(plain > Bytes{});
  CHECK(bytes_of_states(model, {.state_type = StateType::float32}) == plain);
  CHECK(2 * bytes_of_states(model, {.state_type = StateType::bfloat16}) == plain);
  CHECK(2 * bytes_of_states(model, {.states = 1}) == plain);
  // A quarter, and a float32 for every 256 elements, begun ones too.
  const Bytes eight = bytes_of_states(model, {.state_type = StateType::int8});
  CHECK(eight.value >= plain.value / 4 + plain.value / 256);
  CHECK(eight.value <= plain.value / 4 + plain.value / 256 + 2 * 4 * 12);
  Status refused;
  bytes_of_states(model, {.state_type = StateType::bfloat16}, &refused);
  CHECK(refused.message().find("state_type stays what it was") != std::string::npos);
}

}  // namespace
}  // namespace tessera
