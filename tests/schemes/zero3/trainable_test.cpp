// SPDX-License-Identifier: Apache-2.0
// What is trained, and in which groups, may change between a step and the next forward pass.
#include "engine/schemes/zero3/parameters/marks.h"
#include "tests/schemes/zero3/strict_run.h"

namespace tessera {
namespace {

using test::StrictRun;

bool holds(const Recording& recording, const std::string& name) {
  return std::any_of(recording.buffers.begin(), recording.buffers.end(),
                     [&](const auto& buffer) { return buffer.name == name; });
}

TEST_CASE("a parameter that is frozen in mid-run leaves its group and comes back to its state",
          "[zero3][strict]") {
  StrictRun run;
  run.train(2);
  Parameter& b = run.model.parameters[1];
  b.requires_grad = false;
  std::size_t from = run.recording.records.size();
  run.train(1);
  CHECK(run.engine->parameters()[1].sub_group == -1);
  CHECK(run.count(marks::gradient_ready, "b.w", from) == 0);
  CHECK(run.count(marks::gradient_ready, "a.w", from) == 1);
  b.requires_grad = true;
  from = run.recording.records.size();
  run.train(1);
  CHECK(run.engine->parameters()[1].sub_group == 0);
  CHECK(run.count(marks::gradient_ready, "b.w", from) == 1);
  const auto states =
      std::count_if(run.recording.buffers.begin(), run.recording.buffers.end(),
                    [](const auto& buffer) { return buffer.name == "b.w.exp_avg"; });
  CHECK(states == 1);
}

TEST_CASE("a frozen beginning has no backward, from the first pass after it was frozen",
          "[zero3][strict]") {
  StrictRun run;
  run.train(2);
  run.model.parameters[0].requires_grad = false;
  const std::size_t from = run.recording.records.size();
  run.train(2);
  for (const char* name : {"", "a", "b", "c"}) {
    CHECK(run.count(marks::trace_mismatch, name, from) == 0);
  }
}

TEST_CASE("what is trained may not change while there are gradients", "[zero3][errors]") {
  StrictRun run;
  REQUIRE(run.engine->begin_forward().ok());
  REQUIRE(run.engine->begin_backward().ok());
  for (int p = 2; p >= 0; --p) {
    const ModuleId module{p + 1};
    REQUIRE(run.engine->pre_backward(module).ok());
    REQUIRE(run.engine->compute({.module = module, .pass = ModuleWork::Pass::backward}).ok());
    REQUIRE(run.engine->grad_ready(ParameterId{p}).ok());
  }
  REQUIRE(run.engine->end_backward().ok());
  run.model.parameters[1].requires_grad = false;
  const Status status = run.engine->begin_forward();
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().starts_with("requires_grad of b.w changed while there are gradients"));
}

TEST_CASE("the compatible policy refuses what DeepSpeed silently cannot", "[zero3][errors]") {
  StrictRun run({.policy = Zero3Policy::compatible});
  run.train(1);
  run.model.parameters[1].requires_grad = false;
  const Status status = run.engine->begin_forward();
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("b.w changed, which the compatible policy cannot") !=
        std::string::npos);
}

TEST_CASE("parameters join in groups of their own, with sub-groups of their own",
          "[zero3][strict]") {
  StrictRun run;
  run.ok(run.engine->set_param_groups({{.parameters = {ParameterId{0}, ParameterId{1}}}}));
  run.train(1);
  CHECK(run.engine->parameters()[2].sub_group == -1);
  CHECK_FALSE(holds(run.recording, "c.w.exp_avg"));
  run.ok(run.engine->add_param_group({.parameters = {ParameterId{2}}}));
  run.train(1);
  CHECK(run.engine->parameters()[1].sub_group == 0);
  CHECK(run.engine->parameters()[2].sub_group == 1);
  CHECK(holds(run.recording, "c.w.exp_avg"));
}

}  // namespace
}  // namespace tessera
