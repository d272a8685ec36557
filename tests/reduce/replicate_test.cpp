// SPDX-License-Identifier: Apache-2.0
// What replicate refuses, and what it keeps.
#include "tessera/replicate.h"

#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/shard/models.h"

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

TEST_CASE("a parameter without gradient stops the next forward, by name", "[reduce][errors]") {
  Recording recording;
  std::unique_ptr<Runtime> runtime;
  const Model model =
      test::linear_model("partly", {{"a", 4, 4}, {"unused", 4, 4}, {"b", 4, 4}}, {"a", "b"});
  SECTION("by default") {
    auto engine = make(recording, runtime, model, {});
    REQUIRE(engine.ok());
    REQUIRE(run_training_step(**engine, model, {}).ok());
    const Status status = (*engine)->begin_forward();
    INFO(status.message());
    CHECK(status.code() == Code::invalid_argument);
    CHECK(status.message().find("unused.weight, unused.bias got no gradient") != std::string::npos);
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
