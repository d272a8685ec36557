// SPDX-License-Identifier: Apache-2.0
// What the sharding schemes refuse: one sentence that names unit, parameter or call.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/training.h"
#include "tests/base/models.h"

namespace tessera {
namespace {

constexpr Rank ranks = 4;

struct Made {
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(ranks, recording);
  Result<std::unique_ptr<Engine>> engine{Status{Code::invalid_argument, "not made"}};

  Made(const Model& model, const Scheme& scheme) : engine(make_engine(*runtime, model, scheme)) {}
  Engine& operator*() {
    INFO(engine.status().message());
    REQUIRE(engine.ok());
    return **engine;
  }
};

void check_refused(const Status& status, const std::string& part) {
  INFO(status.message());
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find(part) != std::string::npos);
  CHECK(status.message().find('\n') == std::string::npos);
}

void check_refused(const Model& model, const Scheme& scheme, const std::string& part) {
  const Made made(model, scheme);
  REQUIRE_FALSE(made.engine.ok());
  check_refused(made.engine.status(), part);
}

std::vector<std::string> warnings_of(const Model& model, const Scheme& scheme) {
  Made made(model, scheme);
  return (*made).warnings();
}

TEST_CASE("units that cannot be are refused by name", "[shard][errors]") {
  const Model model = test::g3();
  check_refused(model, FullyShardOptions{.units = {"L9"}}, "'L9' is no module of g3");
  check_refused(model, Fsdp1Options{.units = {"L1", "L1"}}, "'L1' is named twice");
  check_refused(model, Fsdp1Options{.units = {""}}, "the root is always a unit");
  check_refused(model, FullyShardOptions{.units = {"L1"}, .plan = WrapPlan{}}, "not both");
  Model tied = test::linear_model("tied", {{"a", 4, 4}, {"b", 4, 4}}, {"a", "b"});
  tied.parameters.erase(tied.parameters.begin() + 2);  // b.weight is a.weight
  tied.parameters[2].module = tied.find_module("b");
  tied.modules[2].parameters = {ParameterId{2}};
  tied.ties.push_back({"b.weight", ParameterId{0}});
  check_refused(tied, Fsdp1Options{.units = {"b"}}, "a.weight");
  CHECK(Made(tied, Fsdp1Options{.units = {}}).engine.ok());
}

TEST_CASE("parameters that do not fit together are refused by name", "[shard][errors]") {
  Model model = test::g3();
  model.parameters[3].requires_grad = false;
  check_refused(model, Fsdp1Options{.units = {"L1"}}, "unit L1 mixes trained and frozen");
  CHECK(Made(model, Fsdp1Options{.units = {"L1"}, .use_orig_params = true}).engine.ok());
  CHECK(Made(model, FullyShardOptions{.units = {"L1"}}).engine.ok());
  model = test::g3();
  model.parameters[3].dtype = DType::bfloat16;
  check_refused(model, Fsdp1Options{.units = {"L1"}},
                "L1.weight is float32 and L1.bias is bfloat16");
  model = test::g3();
  model.parameters[3].shape = {};
  check_refused(model, FullyShardOptions{.units = {"L1"}}, "L1.bias is a scalar");
}

TEST_CASE("what is understood otherwise than asked for is warned about", "[shard][errors]") {
  Model model = test::g3();
  CHECK(warnings_of(model, Fsdp1Options{.units = {"L1"}}).empty());
  CHECK(warnings_of(model, FullyShardOptions{.units = {"L1"}}).empty());
  using S = ShardingStrategy;
  const auto alone =
      warnings_of(model, Fsdp1Options{.strategy = S::hybrid_shard, .shard_group = 1});
  REQUIRE(alone.size() == 1);
  CHECK(alone[0].find("the strategy is no_shard") != std::string::npos);
  model.parameters[3].requires_grad = false;
  const auto mixed = warnings_of(model, Fsdp1Options{.units = {"L1"}, .use_orig_params = true});
  REQUIRE(mixed.size() == 1);
  CHECK(mixed[0].find("unit L1 trains 35 of 42 elements") != std::string::npos);
}

TEST_CASE("groups that do not divide the ranks are refused", "[shard][errors]") {
  const Model model = test::g3();
  using S = ShardingStrategy;
  check_refused(model, Fsdp1Options{.strategy = S::hybrid_shard}, "needs shard_group");
  check_refused(model, Fsdp1Options{.strategy = S::hybrid_shard_zero2, .shard_group = 3},
                "3 does not divide 4 ranks");
  check_refused(model, Fsdp1Options{.shard_group = 2}, "is for hybrid strategies only");
  check_refused(model, FullyShardOptions{.shard_group = 3}, "3 does not divide 4 ranks");
  check_refused(model, FullyShardOptions{.shard_group = -2}, "-2 does not divide 4 ranks");
  using R = ReshardAfterForward;
  check_refused(model, FullyShardOptions{.reshard_after_forward = R::to_group, .reshard_group = 3},
                "must divide the 4 ranks");
  check_refused(model, FullyShardOptions{.reshard_after_forward = R::to_group}, "must divide");
  check_refused(model, FullyShardOptions{.reshard_group = 2}, "is for reshard_after_forward");
  check_refused(model, FullyShardOptions{.reduce_scatter_max_input_buffers = 0},
                "must be at least 1, found 0");
}

TEST_CASE("calls out of order are refused, naming the call", "[shard][errors]") {
  const Model model = test::g3();
  const Scheme scheme =
      GENERATE(values<Scheme>({FullyShardOptions{}, Fsdp1Options{}, ReplicateOptions{}}));
  Made made(model, scheme);
  Engine& engine = *made;
  const ModuleId head = model.find_module("head");
  check_refused(engine.pre_forward(head), "pre_forward was called outside forward and backward");
  check_refused(engine.post_forward(head), "post_forward was called outside");
  check_refused(engine.pre_backward(head), "pre_backward was called outside");
  check_refused(engine.begin_backward(), "begin_backward was called outside");
  check_refused(engine.end_backward(), "end_backward was called outside");
  check_refused(engine.recompute_begin(head), "recompute_begin was called outside");
  REQUIRE(engine.begin_forward().ok());
  check_refused(engine.begin_forward(), "begin_forward was called in forward");
  check_refused(engine.step({}), "step was called in forward");
  check_refused(engine.post_backward(head), "post_backward was called in forward");
  check_refused(engine.initialise([](ParameterId, Numel) { return 0.0F; }),
                "initialise was called in forward");
  REQUIRE(engine.begin_backward().ok());
  check_refused(engine.pre_forward(head), "pre_forward was called in backward");
  REQUIRE(engine.recompute_begin(head).ok());
  check_refused(engine.recompute_begin(head), "end that first");
  CHECK(engine.pre_forward(head).ok());  // a recomputation's own forward
  check_refused(engine.recompute_end(ModuleId{0}), "which is not being recomputed");
  CHECK(engine.recompute_end(head).ok());
  check_refused(engine.free_activations(head), "module head keeps no activations");
}

TEST_CASE("a backward pass does not end inside of a recomputation", "[shard][errors]") {
  const Model model = test::g3();
  const Scheme scheme = GENERATE(
      values<Scheme>({FullyShardOptions{}, Fsdp1Options{}, ReplicateOptions{},
                      ShardedDataParallelOptions{}, Zero3Options{}, Zero12Options{.stage = 2}}));
  Made made(model, scheme);
  Engine& engine = *made;
  const ModuleId head = model.find_module("head");
  REQUIRE(engine.begin_forward().ok());
  REQUIRE(engine.begin_backward().ok());
  REQUIRE(engine.recompute_begin(head).ok());
  check_refused(engine.end_backward(), "while module head is recomputed: call recompute_end first");
  REQUIRE(engine.recompute_end(head).ok());
  CHECK(engine.end_backward().ok());
}

TEST_CASE("a wrap plan ignores parameters of the model, each once", "[shard][errors]") {
  const Model model = test::g3();
  WrapPlan plan{.units = {{.module = ModuleId{0}}}, .ignored = {ParameterId{99}}};
  check_refused(model, FullyShardOptions{.plan = plan},
                "the wrap plan ignores parameter 99, g3 has 10: it was made for another model");
  plan.ignored = {ParameterId{1}, ParameterId{1}};
  check_refused(model, Fsdp1Options{.plan = plan}, "the wrap plan ignores emb.bias twice");
}

TEST_CASE("a module that computes with sharded parameters is refused", "[shard][errors]") {
  const Model model = test::g3();
  for (const Scheme& scheme :
       {Scheme(FullyShardOptions{.units = {"L1"}}), Scheme(Fsdp1Options{.units = {"L1"}})}) {
    Made made(model, scheme);
    Engine& engine = *made;
    REQUIRE(engine.begin_forward().ok());
    check_refused(engine.compute({.module = model.find_module("L1")}),
                  "L1.weight is used while it is sharded: call pre_forward for unit L1 first");
    REQUIRE(engine.begin_backward().ok());
    check_refused(
        engine.compute({.module = model.find_module("L1"), .pass = ModuleWork::Pass::backward}),
        "call pre_backward for unit L1 first");
  }
}

TEST_CASE("controls of fully_shard refuse modules that are no units", "[shard][errors]") {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(ranks, recording);
  auto engine = fully_shard(*runtime, model, {.units = {"L1", "L2"}});
  REQUIRE(engine.ok());
  const ModuleId unit = model.find_module("L1");
  const ModuleId other = model.find_module("head");
  check_refused((*engine)->set_modules_to_forward_prefetch(other, {unit}),
                "set_modules_to_forward_prefetch: module head is no sharding unit");
  check_refused((*engine)->set_modules_to_backward_prefetch(unit, {other}), "module head");
  check_refused((*engine)->unshard(ModuleId{99}), "unshard: module id 99 is no sharding unit");
  check_refused((*engine)->reshard(other), "reshard: module head");
  check_refused((*engine)->set_reshard_after_forward(other, true), "module head");
}

}  // namespace
}  // namespace tessera
