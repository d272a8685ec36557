// SPDX-License-Identifier: Apache-2.0
// Gradients that no step would see are refused, instead of being lost or added to the next pass.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tests/base/models.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

using test::require_ok;

// An engine of two ranks that has run a forward pass of `head` and is in its backward.
struct InBackward {
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(2, recording);
  std::unique_ptr<Engine> engine;
  ModuleId head;

  InBackward(Model& model, const Scheme& scheme, ParameterId trained_after_forward = {}) {
    auto made = make_engine(*runtime, model, scheme);
    INFO(name_of(scheme) << ": " << made.status().message());
    REQUIRE(made.ok());
    engine = std::move(*made);
    head = model.find_module("head");
    require_ok(engine->begin_forward());
    for (const ModuleId m : {ModuleId{0}, head}) require_ok(engine->pre_forward(m));
    require_ok(engine->compute({.module = head}));
    for (const ModuleId m : {head, ModuleId{0}}) require_ok(engine->post_forward(m));
    require_ok(engine->begin_backward());
    for (const ModuleId m : {ModuleId{0}, head}) require_ok(engine->pre_backward(m));
    if (trained_after_forward.valid()) {
      model.parameters[trained_after_forward.index()].requires_grad = true;
    }
  }
  Status backward() {
    return engine->compute({.module = head, .pass = ModuleWork::Pass::backward});
  }
};

void expect_refusal(const Status& status, const std::string& part) {
  INFO(status.message());
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find(part) != std::string::npos);
}

TEST_CASE("a gradient that is written after it became ready is refused", "[reduce][errors]") {
  Model model = test::g3();
  const Scheme scheme = GENERATE(
      values<Scheme>({ReplicateOptions{}, ReplicateOptions{.gradient_as_bucket_view = true},
                      ShardedDataParallelOptions{}, Zero3Options{},
                      Zero3Options{.policy = Zero3Policy::compatible}, Zero12Options{.stage = 1},
                      Zero12Options{.stage = 2}}));
  INFO(name_of(scheme));
  InBackward run(model, scheme);
  require_ok(run.backward());
  require_ok(run.engine->grad_ready(model.find_parameter("head.weight")));
  expect_refusal(run.backward(), "head.weight gets a gradient after its gradient was ready");
}

TEST_CASE("a gradient that is written after its unit was reduced is refused", "[reduce][errors]") {
  Model model = test::g3();
  SECTION("fully_shard") {
    InBackward run(model, FullyShardOptions{.units = {"head"}});
    dynamic_cast<FullyShard&>(*run.engine).set_reshard_after_backward(false);
    require_ok(run.backward());
    require_ok(run.engine->post_backward(run.head));
    expect_refusal(run.backward(), "head.weight gets a gradient after unit head was reduced");
  }
  SECTION("FSDP1") {
    InBackward run(model, Fsdp1Options{.units = {"head"}, .strategy = ShardingStrategy::no_shard});
    require_ok(run.backward());
    require_ok(run.engine->post_backward(run.head));
    expect_refusal(run.backward(), "head.weight gets a gradient after unit head was reduced");
  }
}

TEST_CASE("what is trained only after the engine was made gets no gradient", "[shard][errors]") {
  Model model = test::g3();
  const ParameterId weight = model.find_parameter("head.weight");
  model.parameters[weight.index()].requires_grad = false;
  const Scheme scheme = GENERATE(values<Scheme>(
      {FullyShardOptions{}, Fsdp1Options{.use_orig_params = true}, ReplicateOptions{},
       FullyShardOptions{
           .plan = WrapPlan{.units = {{.module = ModuleId{0}}}, .ignored = {ParameterId{8}}}},
       ShardedDataParallelOptions{}, Zero3Options{}, Zero12Options{.stage = 1}}));
  INFO(name_of(scheme));
  InBackward run(model, scheme, weight);
  expect_refusal(run.backward(), "requires_grad of head.weight changed");
}

}  // namespace
}  // namespace tessera
