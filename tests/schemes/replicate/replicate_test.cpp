// SPDX-License-Identifier: Apache-2.0
// What replicate refuses, and what it keeps.
#include "tessera/replicate.h"

#include <catch2/catch.hpp>

#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tests/schemes/replicate/replicas.h"

namespace tessera {
namespace {

Result<std::unique_ptr<Engine>> make(Recording& recording, std::unique_ptr<Runtime>& runtime,
                                     const Model& model, const ReplicateOptions& options) {
  runtime = make_recording_runtime(2, recording);
  return replicate(*runtime, model, options);
}

TEST_CASE("replicate refuses what it cannot do, naming it", "[reduce][errors]") {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  Model model = test::g3();
  auto refused = [&](const ReplicateOptions& options, const std::string& part) {
    const auto engine = make(recording, runtime, model, options);
    REQUIRE_FALSE(engine.ok());
    INFO(engine.status().message());
    CHECK(engine.status().code() == Code::invalid_argument);
    CHECK(engine.status().message().find(part) != std::string::npos);
  };
  refused({.ignored_modules = {"L9"}}, "'L9' is no module of g3");
  refused({.bucket_cap = Bytes{0}}, "at least 1 byte");
  for (Parameter& p : model.parameters) p.requires_grad = false;
  refused({}, "no parameter that requires a gradient");
}

TEST_CASE("a parameter without gradient stops the step, by name", "[reduce][errors]") {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  const Model model =
      test::linear_model("partly", {{"a", 4, 4}, {"unused", 4, 4}, {"b", 4, 4}}, {"a", "b"});
  SECTION("by default") {
    auto engine = make(recording, runtime, model, {});
    REQUIRE(engine.ok());
    const Status status = run_training_step(**engine, model, {});
    CHECK((*engine)->begin_forward().message() == status.message());
    INFO(status.message());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(
        status.message().find("unused.weight (bucket 0), unused.bias (bucket 0) got no gradient") !=
        std::string::npos);
    CHECK(status.message().find("find_unused_parameters") != std::string::npos);
  }
  SECTION("not with find_unused_parameters") {
    auto engine = make(recording, runtime, model, {.find_unused_parameters = true});
    REQUIRE(engine.ok());
    for (int step = 0; step < 3; ++step) {
      const Status status = run_training_step(**engine, model, {});
      INFO(status.message());
      CHECK(status.ok());
    }
  }
}

TEST_CASE("a gradient that is ready twice is refused by name", "[reduce][errors]") {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  const Model model = test::g3();
  auto made = make(recording, runtime, model, {});
  REQUIRE(made.ok());
  Engine& engine = **made;
  REQUIRE(engine.begin_forward().ok());
  REQUIRE(engine.begin_backward().ok());
  const ModuleId head = model.find_module("head");
  REQUIRE(engine.compute({.module = head, .pass = ModuleWork::Pass::backward}).ok());
  const ParameterId weight = model.find_parameter("head.weight");
  REQUIRE(engine.grad_ready(weight).ok());
  const Status status = engine.grad_ready(weight);
  CHECK(status.message().find("head.weight became ready twice") != std::string::npos);
}

TEST_CASE("a model has one engine on a runtime", "[reduce][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::g3();
  auto again = [&] { return replicate(*runtime, model, {}).status(); };
  SECTION("applied twice") {
    auto engine = replicate(*runtime, model, {});
    REQUIRE(engine.ok());
    test::check_refused(again(), "g3 is replicated or sharded on this runtime already");
    const Model copy = model;
    CHECK(replicate(*runtime, copy, {}).ok());
  }
  SECTION("sharded") {
    auto engine = fully_shard(*runtime, model, {});
    REQUIRE(engine.ok());
    test::check_refused(again(), "g3 is replicated or sharded on this runtime already");
  }
  test::require_ok(again());  // what is gone does not count
}

// Forward and backward of some modules, by hand.
Status pass(Engine& engine, const Model& model, const std::vector<std::string>& modules,
            int backwards = 1) {
  TESSERA_TRY(engine.begin_forward());
  for (const auto& path : modules) {
    TESSERA_TRY(engine.compute({.module = model.find_module(path)}));
  }
  TESSERA_TRY(engine.begin_backward());
  for (auto path = modules.rbegin(); path != modules.rend(); ++path) {
    const ModuleId id = model.find_module(*path);
    for (int k = 0; k < backwards; ++k) {
      TESSERA_TRY(engine.compute({.module = id, .pass = ModuleWork::Pass::backward}));
    }
    for (ParameterId p : model.module(id).parameters) TESSERA_TRY(engine.grad_ready(p));
  }
  TESSERA_TRY(engine.end_backward());
  return engine.step({});
}

TEST_CASE("a static graph does not change", "[reduce][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::linear_model("branches", {{"a", 4, 4}, {"b", 4, 4}}, {"a", "b"});
  auto engine = replicate(*runtime, model, {.static_graph = true});
  REQUIRE(engine.ok());
  SECTION("a module less") {
    test::require_ok(pass(**engine, model, {"a", "b"}));
    test::check_refused(pass(**engine, model, {"a"}),
                        "static_graph was set, but b.weight, b.bias are used another number");
  }
  SECTION("a module more") {
    test::require_ok(pass(**engine, model, {"a"}));
    test::check_refused(pass(**engine, model, {"a", "b"}), "but b.weight, b.bias are used");
  }
  SECTION("another number of uses") {
    test::require_ok(pass(**engine, model, {"a", "b"}));
    test::check_refused(pass(**engine, model, {"a", "b"}, 2),
                        "but a.weight, a.bias, b.weight, b.bias are used another number of times");
  }
}

TEST_CASE("a graph is declared static before the first step", "[reduce][errors]") {
  const Model model = test::g3();
  Recording declared, given;
  const auto runtime = make_recording_runtime(2, declared);
  const auto other = make_recording_runtime(2, given);
  auto engine = replicate(*runtime, model, {.find_unused_parameters = true});
  auto expected = replicate(*other, model, {.find_unused_parameters = true, .static_graph = true});
  REQUIRE(engine.ok());
  REQUIRE(expected.ok());
  test::require_ok(set_static_graph(**engine));
  for (int step = 0; step < 3; ++step) {
    test::require_ok(run_training_step(**engine, model, {}));
    test::require_ok(run_training_step(**expected, model, {}));
  }
  CHECK(to_ddp_notation(declared) == to_ddp_notation(given));
  test::check_refused(set_static_graph(**engine), "after the first forward pass");
  auto sharded = fully_shard(*runtime, model, {});
  REQUIRE(sharded.ok());
  test::check_refused(set_static_graph(**sharded), "set_static_graph is for engines made by");
}

TEST_CASE("a recording knows its buckets when they are gone", "[reduce]") {
  Recording recording;
  const Model model = test::g3();
  const auto runtime = make_recording_runtime(2, recording);
  {
    auto engine = replicate(*runtime, model, {.first_bucket_cap = Bytes{100}});
    REQUIRE(engine.ok());
    for (int step = 0; step < 2; ++step) test::require_ok(run_training_step(**engine, model, {}));
  }
  std::vector<std::string_view> reduced;
  for (const Record& r : recording.records) {
    if (std::holds_alternative<AllReduce>(r.op.what)) reduced.push_back(r.cause.unit);
  }
  CHECK(reduced == std::vector<std::string_view>{"bucket 0", "bucket 0", "bucket 1"});
}

TEST_CASE("ignored modules take their parameters with them, tied ones too", "[reduce]") {
  auto model = parse_model(
      R"({"tessera_model": 1, "name": "tied", "root": {"class": "Net", "modules": [
      {"name": "tokens", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]},
      {"name": "mid", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]},
      {"name": "tail", "class": "Sequential", "modules": [
        {"name": "head", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]},
        {"name": "own", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]}]}
      ]}]}, "ties": [["tokens.weight", "tail.head.weight"]]})",
      "test");
  REQUIRE(model.ok());
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  auto engine = make(recording, runtime, *model, {.ignored_modules = {"tail"}});
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) {
    test::require_ok(run_training_step(**engine, *model, {}));
    REQUIRE((*engine)->units().size() == 1);
    CHECK((*engine)->units()[0].numel == Numel{16});  // mid.weight
  }
  CHECK(to_ddp_notation(recording).back().find("params=['mid.weight']") != std::string::npos);
  auto nothing = make(recording, runtime, *model, {.ignored_modules = {""}});
  test::check_refused(nothing.status(), "no parameter that requires a gradient");
}

TEST_CASE("whether a backward pass reduces is decided as it begins", "[reduce][errors]") {
  const Model model = test::g3();
  const bool at_first = GENERATE(true, false);
  const Scheme scheme = GENERATE(values<Scheme>(
      {ReplicateOptions{.bucket_cap = Bytes{100}}, Fsdp1Options{}, FullyShardOptions{}}));
  INFO(name_of(scheme) << " " << at_first);
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = make_engine(*runtime, model, scheme);
  REQUIRE(engine.ok());
  Engine& e = **engine;
  e.set_requires_gradient_sync(at_first);
  REQUIRE(e.begin_forward().ok());
  REQUIRE(e.pre_forward(ModuleId{0}).ok());
  for (ModuleId m : model.forward) REQUIRE(e.compute({.module = m, .body = {}}).ok());
  REQUIRE(e.post_forward(ModuleId{0}).ok());
  REQUIRE(e.begin_backward().ok());
  REQUIRE(e.pre_backward(ModuleId{0}).ok());
  for (auto m = model.forward.rbegin(); m != model.forward.rend(); ++m) {
    REQUIRE(e.compute({.module = *m, .pass = ModuleWork::Pass::backward, .body = {}}).ok());
    for (const ParameterId p : model.module(*m).parameters) REQUIRE(e.grad_ready(p).ok());
    e.set_requires_gradient_sync(!at_first);
  }
  REQUIRE(e.post_backward(ModuleId{0}).ok());
  REQUIRE(e.end_backward().ok());
  const Status stepped = e.step({});
  CHECK(stepped.ok() == at_first);
  if (!at_first) CHECK(stepped.message().find("ranks would drift apart") != std::string::npos);
}

TEST_CASE("a cap that is given is the first bucket's, too; a list has one per bucket", "[reduce]") {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  const Model model = test::g3();
  const auto buckets = [&](const ReplicateOptions& options) {
    auto engine = make(recording, runtime, model, options);
    REQUIRE(engine.ok());
    for (int step = 0; step < 2; ++step) REQUIRE(run_training_step(**engine, model, {}).ok());
    std::vector<std::int64_t> sizes;
    for (const UnitInfo& unit : (*engine)->units()) sizes.push_back(unit.numel.value);
    return sizes;
  };
  CHECK(buckets({}).size() == 1);  // all of it is below 1 MiB
  CHECK(buckets({.bucket_cap = Bytes{200}}) ==
        buckets({.bucket_cap = Bytes{200}, .first_bucket_cap = Bytes{200}}));
  CHECK(buckets({.bucket_caps = {Bytes{100}, Bytes{200}}}) ==
        buckets({.bucket_cap = Bytes{200}, .first_bucket_cap = Bytes{100}}));
  CHECK(buckets({.bucket_caps = {Bytes{1}, Bytes{1}, Bytes{4000}}}).size() == 3);
  const auto both =
      make(recording, runtime, model, {.bucket_cap = Bytes{200}, .bucket_caps = {Bytes{100}}});
  test::check_refused(both.status(), "leave these out");
}

// torch: native_layer_norm_backward and convolution_backward return the weight's gradient first.
TEST_CASE("gradients of norms and convolutions become ready weight first", "[reduce]") {
  const Model model = *parse_model(R"({"tessera_model": 1, "name": "n", "root": {"class": "N",
    "modules": [
      {"name": "c", "class": "Conv2d", "parameters": [{"name": "weight", "shape": [4, 3, 3, 3]},
        {"name": "bias", "shape": [4]}]},
      {"name": "n", "class": "LayerNorm", "parameters": [{"name": "weight", "shape": [4]},
        {"name": "bias", "shape": [4]}]},
      {"name": "l", "class": "Linear", "parameters": [{"name": "weight", "shape": [4, 4]},
        {"name": "bias", "shape": [4]}]}]}})",
                                   "n");
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  auto engine = make(recording, runtime, model, {});
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  std::vector<std::string> ready;
  for (const Record& r : recording.records) {
    if (r.cause.phase != Phase::backward || !std::holds_alternative<Mark>(r.op.what)) continue;
    if (r.kind == Record::Kind::op && !r.cause.module.empty()) ready.emplace_back(r.cause.module);
  }
  CHECK(ready ==
        std::vector<std::string>{"l.bias", "l.weight", "n.weight", "n.bias", "c.weight", "c.bias"});
}

TEST_CASE("replicate all-reduces one bucket, then as many as the caps make", "[reduce]") {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  const Model model = test::g3();
  auto engine =
      make(recording, runtime, model, {.bucket_cap = Bytes{200}, .first_bucket_cap = Bytes{100}});
  REQUIRE(engine.ok());
  std::vector<int> reduces;
  for (int step = 0; step < 3; ++step) {
    const std::size_t before = recording.records.size();
    REQUIRE(run_training_step(**engine, model, {}).ok());
    int count = 0;
    for (std::size_t k = before; k < recording.records.size(); ++k) {
      const Record& r = recording.records[k];
      count += r.kind == Record::Kind::op && kind_of(r.op) == OpKind::all_reduce ? 1 : 0;
    }
    reduces.push_back(count);
  }
  CHECK(reduces == std::vector{1, 3, 3});
}

}  // namespace
}  // namespace tessera
