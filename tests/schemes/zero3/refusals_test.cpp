// SPDX-License-Identifier: Apache-2.0
// Where DeepSpeed raises, zero3 fails with one sentence.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tessera/zero3.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

constexpr ModuleId root{0}, a{1}, b{2}, c{3};
constexpr ParameterId aw{0}, cw{2};

struct Made {
  Model model;
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(2, recording);
  std::unique_ptr<Zero3> engine;

  explicit Made(const Zero3Options& options = {.policy = Zero3Policy::compatible},
                const Model& made_of = test::net3())
      : model(made_of) {
    auto made = zero3(*runtime, model, options);
    INFO(made.status().message());
    REQUIRE(made.ok());
    engine = std::move(*made);
  }
  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      const Status status = run_training_step(*engine, model, {});
      INFO(status.message());
      REQUIRE(status.ok());
    }
  }
};

void check_refused(const Status& status, const std::string& part) {
  INFO(status.message());
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find(part) != std::string::npos);
  CHECK(status.message().find('\n') == std::string::npos);
}

void check_refused(const Zero3Options& options, const std::string& part) {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::net3();
  check_refused(zero3(*runtime, model, options).status(), part);
}

TEST_CASE("sizes that cannot be are refused by name", "[zero3][errors]") {
  check_refused({.prefetch_bucket = Numel{-1}}, "prefetch_bucket must be at least 0, found -1");
  check_refused({.max_reuse_distance = Numel{-1}}, "max_reuse_distance");
  check_refused({.max_live_parameters = Numel{-1}}, "max_live_parameters");
  check_refused({.persistence_threshold = Numel{-1}}, "persistence_threshold");
  check_refused({.model_persistence_threshold = Numel{-1}}, "model_persistence_threshold");
  check_refused({.reduce_bucket = Numel{-1}}, "reduce_bucket");
  check_refused({.sub_group_size = Numel{-1}}, "sub_group_size must be at least 0, found -1");
}

TEST_CASE("a pass that ends with parameters in flight is refused", "[zero3][errors]") {
  Made made({.policy = Zero3Policy::compatible,
             .prefetch_bucket = Numel{100},
             .persistence_threshold = Numel{0}});
  made.train(2);
  Engine& engine = *made.engine;
  REQUIRE(engine.begin_forward().ok());
  REQUIRE(engine.pre_forward(root).ok());  // a, b and c fly
  REQUIRE(engine.post_forward(root).ok());
  REQUIRE(engine.begin_backward().ok());
  check_refused(engine.end_backward(), "still have inflight params, a.w and 2 more");
}

TEST_CASE("without prefetch another order is allowed and recorded anew", "[zero3]") {
  Made made({.policy = Zero3Policy::compatible,
             .prefetch_bucket = Numel{0},
             .persistence_threshold = Numel{0}});
  made.train(2);
  std::swap(made.model.forward[0], made.model.forward[1]);  // b, a, c
  made.train(3);
  std::string modes;
  for (const std::string& line : to_deepspeed_notation(made.recording, made.engine->parameters())) {
    if (line.rfind("RESET_STEP", 0) == 0)
      modes += line.substr(11, line.find(" modules") - 11) + ' ';
  }
  CHECK(modes ==
        "RECORD->COMPLETE COMPLETE->COMPLETE INVALID->RECORD RECORD->COMPLETE COMPLETE->COMPLETE ");
}

TEST_CASE("parameters that change after they were recorded are a tracing error",
          "[zero3][errors]") {
  Made made({.policy = Zero3Policy::compatible,
             .prefetch_bucket = Numel{0},
             .persistence_threshold = Numel{0}});
  made.train(2);
  REQUIRE(made.engine->register_external_parameter(c, aw).ok());
  check_refused(run_training_step(*made.engine, made.model, {}),
                "tracing error at step 3: module 'c' needs a.w, c.w");
}

TEST_CASE("a parameter registered beforehand is fetched with both modules", "[zero3]") {
  Made made({.policy = Zero3Policy::compatible,
             .prefetch_bucket = Numel{30},
             .persistence_threshold = Numel{0}});
  REQUIRE(made.engine->register_external_parameter(c, aw).ok());
  REQUIRE(made.engine->register_external_parameter(c, aw).ok());  // twice is once
  made.train(3);
  const auto lines = to_deepspeed_notation(made.recording, made.engine->parameters());
  const std::string gathered = "  ALLGATHER ['a.w', 'c.w'] numel=39";
  CHECK(std::count(lines.begin(), lines.end(), gathered) == 2);  // recording: forward and backward
}

TEST_CASE("external parameters must exist and must have been registered", "[zero3][errors]") {
  Made made;
  check_refused(made.engine->register_external_parameter(c, ParameterId{9}),
                "no parameter of net3");
  check_refused(made.engine->unregister_external_parameter(c, aw), "a.w is not registered with");
  check_refused(made.engine->unregister_external_parameter(c, cw), "c.w is not registered with");
  REQUIRE(made.engine->register_external_parameter(c, aw).ok());
  CHECK(made.engine->unregister_external_parameter(c, aw).ok());
  check_refused(made.engine->unregister_external_parameter(c, aw), "a.w is not registered with");
}

TEST_CASE("a gradient that is ready twice is refused", "[zero3][errors]") {
  Made made;
  Engine& engine = *made.engine;
  REQUIRE(engine.begin_forward().ok());
  REQUIRE(engine.pre_forward(c).ok());
  REQUIRE(engine.compute({.module = c}).ok());
  REQUIRE(engine.post_forward(c).ok());
  REQUIRE(engine.begin_backward().ok());
  REQUIRE(engine.pre_backward(c).ok());
  REQUIRE(engine.compute({.module = c, .pass = ModuleWork::Pass::backward}).ok());
  REQUIRE(engine.grad_ready(cw).ok());
  check_refused(engine.grad_ready(cw), "c.w became ready twice");
}

TEST_CASE("what is out of order is refused by name", "[zero3][errors]") {
  Made made;
  Engine& engine = *made.engine;
  check_refused(engine.pre_forward(a), "pre_forward was called outside");
  check_refused(engine.end_backward(), "end_backward");
  REQUIRE(engine.begin_forward().ok());
  check_refused(engine.compute({.module = a}),
                "a.w is used while it is partitioned: call pre_forw");
  REQUIRE(engine.begin_backward().ok());
  check_refused(engine.post_backward(b), "module 'b', which did not run");
  check_refused(made.engine->next_forward({}), "next_forward");
}

TEST_CASE("evaluation has no backward", "[zero3][errors]") {
  Made made;
  REQUIRE(made.engine->next_forward({.use = ForwardPass::Use::evaluate}).ok());
  REQUIRE(made.engine->begin_forward().ok());
  check_refused(made.engine->begin_backward(),
                "backward pass is invalid for a model in evaluation");
}

}  // namespace
}  // namespace tessera
