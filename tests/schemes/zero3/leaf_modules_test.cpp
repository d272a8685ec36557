// SPDX-License-Identifier: Apache-2.0
// Modules that are gathered and freed as a whole, and parameters that a host touches or returns.
#include "tests/schemes/zero3/scene.h"

namespace tessera::test {
namespace {

constexpr const char* experts = R"({"tessera_model": 1, "name": "experts", "root": {
  "class": "Net", "modules": [
    {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
    {"name": "moe", "class": "Experts", "modules": [
      {"name": "e0", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
      {"name": "e1", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]}]}]},
  "forward": ["a", "moe.e0", "moe.e1"],
  "graphs": {"first": ["a", "moe.e0"], "second": ["a", "moe.e1"]}})";

Zero3Options with_leaf(const std::string& name) {
  Zero3Options options = recorded_options();
  options.leaf_modules = {name};
  return options;
}

TEST_CASE("a leaf module is one visit, one gather and one release", "[zero3]") {
  const std::string name = GENERATE("Experts", "moe");
  Scene scene(parsed(experts), with_leaf(name));
  scene.run("train,step");
  CHECK(Scene::only(scene.lines(), {"FETCH", "ALLGATHER", "PARTITION", "---"}) ==
        Lines{"FETCH F step=0 mod=root trace=RECORD", "FETCH F step=1 mod=a trace=RECORD",
              "ALLGATHER ['a.w'] numel=16", "PARTITION a.w", "FETCH F step=2 mod=moe trace=RECORD",
              "ALLGATHER ['moe.e0.w', 'moe.e1.w'] numel=32", "PARTITION moe.e0.w",
              "PARTITION moe.e1.w", "--- BACKWARD", "FETCH B step=3 mod=root trace=RECORD",
              "FETCH B step=4 mod=moe trace=RECORD", "ALLGATHER ['moe.e0.w', 'moe.e1.w'] numel=32",
              "PARTITION moe.e0.w", "PARTITION moe.e1.w", "FETCH B step=5 mod=a trace=RECORD",
              "ALLGATHER ['a.w'] numel=16", "--- EPILOGUE", "--- STEP", "PARTITION a.w"});
}

TEST_CASE("other experts of a leaf module are the same trace, and what is missing is zeros",
          "[zero3]") {
  Scene scene(parsed(experts), with_leaf("moe"));
  scene.run("train:first,step,train:second,step,train:first,step");
  CHECK(Scene::only(scene.lines(), {"INVALIDATE"}).empty());
  CHECK(Scene::only(scene.lines(), {"GRAD", "REDUCE"}) ==
        Lines{"GRAD_READY moe.e0.w", "GRAD_READY moe.e1.w", "GRAD_READY a.w",
              "REDUCE_SCATTER numel 48", "GRAD_READY moe.e1.w", "GRAD_READY moe.e0.w",
              "GRAD_READY a.w", "REDUCE_SCATTER numel 48", "GRAD_READY moe.e0.w",
              "GRAD_READY moe.e1.w", "GRAD_READY a.w", "REDUCE_SCATTER numel 48"});
}

TEST_CASE("a leaf module that is none is refused by name", "[zero3][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = parsed(experts);
  const Status status = zero3(*runtime, model, with_leaf("mow")).status();
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() == "leaf module 'mow' is neither path nor class of a module of experts");
}

constexpr ModuleId root{0}, a{1}, b{2};
constexpr ParameterId aw{0}, bw{1};

TEST_CASE("a host may say in forward what a module touches or returns", "[zero3]") {
  const Zero3Policy policy = GENERATE(Zero3Policy::strict, Zero3Policy::compatible);
  Zero3Options options = recorded_options();
  options.policy = policy;
  Scene scene(net3(), options);
  Zero3& engine = *scene.engine;
  CHECK(engine.touch(aw).code() == Code::invalid_argument);
  REQUIRE(engine.begin_forward().ok());
  CHECK(engine.touch(aw).message().find("a.w is touched while no module runs") == 0);
  REQUIRE(engine.pre_forward(root).ok());
  CHECK(engine.return_parameter(aw).message().find("a.w is returned while no module runs inside") ==
        0);
  REQUIRE(engine.pre_forward(a).ok());
  REQUIRE(engine.compute({.module = a}).ok());
  REQUIRE(engine.return_parameter(aw).ok());
  REQUIRE(engine.post_forward(a).ok());
  REQUIRE(engine.compute({.module = root, .only = {aw}}).ok());  // still there
  REQUIRE(engine.pre_forward(b).ok());
  REQUIRE(engine.compute({.module = b}).ok());
  REQUIRE(engine.post_forward(b).ok());
  const ModuleId c{3};
  REQUIRE(engine.pre_forward(c).ok());
  REQUIRE(engine.touch(bw).ok());
  REQUIRE(engine.compute({.module = c}).ok());
  const Status read = engine.compute({.module = c, .only = {bw}});
  INFO(read.message());
  REQUIRE(read.ok());
  REQUIRE(engine.post_forward(c).ok());
  REQUIRE(engine.post_forward(root).ok());
  // As DeepSpeed does a stays whatever comes; a plan keeps what backward needs, for no module yet.
  const auto live = engine.live();
  if (policy == Zero3Policy::compatible) {
    REQUIRE(live.size() == 1);
    CHECK(live[0].name == "a.w");
  }
  CHECK(std::none_of(live.begin(), live.end(), [&](const LiveParameter& p) {
    return policy == Zero3Policy::strict && p.reason == LiveParameter::Reason::active;
  }));
  CHECK(engine.unregister_external_parameter(c, bw).code() ==
        Code::invalid_argument);  // in forward
}

TEST_CASE("what nobody declared is poison for the strict policy", "[zero3]") {
  Zero3Options options = recorded_options();
  options.policy = Zero3Policy::strict;
  Scene scene(net3(), options);
  REQUIRE(scene.engine->begin_forward().ok());
  REQUIRE(scene.engine->pre_forward(root).ok());
  REQUIRE(scene.engine->pre_forward(a).ok());
  const Status status = scene.engine->compute({.module = a, .only = {bw}});
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("parameter b.w is used while it is partitioned") == 0);
}

TEST_CASE("what an extra forward pass left in flight is an error of the step, not a crash",
          "[zero3][errors]") {
  Zero3Options options = recorded_options();
  options.prefetch_bucket = Numel{10};
  Scene scene(net3(), options);
  const Status status = scene.run("train,step,forward").try_to("step");
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("still have inflight params") == 0);
}

}  // namespace
}  // namespace tessera::test
