// SPDX-License-Identifier: Apache-2.0
// What DeepSpeed's coordinator gets wrong and the strict policy must not. Numbers in brackets: the
// faults of the recorded runs. net3 has parameters of 24, 30 and 15 elements: 96, 120 and 64 bytes
// gathered on two ranks.
#include "engine/schemes/zero3/parameters/marks.h"
#include "tests/schemes/zero3/strict_run.h"

namespace tessera {
namespace {

using test::net3;
using test::StrictRun;

constexpr ModuleId root{0}, a{1}, b{2}, c{3};
const std::vector<ModuleId> abc = {a, b, c};

Zero3Options within(std::int64_t bytes) {
  return {.live_budget = Bytes{bytes}, .persistence_threshold = Numel{0}};
}

TEST_CASE("strict counts what is live as the runtime does, at every call (DeepSpeed Z1)",
          "[zero3][strict]") {
  const auto budget = GENERATE(120, 184, 216, 280, 1000);
  for (std::int64_t threshold : {0, 15, 100}) {
    Zero3Options options = within(budget);
    options.persistence_threshold = Numel{threshold};
    StrictRun run(options);
    for (int step = 0; step < 3; ++step) {
      run.pass(abc);
      run.pass(abc);
      run.ok(run.engine->step({}));
      CHECK(run.engine->live_bytes() == Bytes{0});
    }
  }
}

TEST_CASE("strict never exceeds its budget, however much it may gather ahead (DeepSpeed Z2)",
          "[zero3][strict]") {
  Zero3Options options = within(160);  // DeepSpeed: a limit of 40 elements, 69 gathered
  options.prefetch_bucket = Numel{1000};
  StrictRun run(options);
  run.train(3);
  CHECK(run.peak <= Bytes{160});
  CHECK(run.count(marks::gathered_for, "a.w") > 0);
}

TEST_CASE("a large prefetch bucket does not keep the whole model (DeepSpeed Z3)",
          "[zero3][strict]") {
  Zero3Options options = within(216);
  options.prefetch_bucket = Numel{1'000'000};
  StrictRun run(options);
  run.train(2);
  run.forward(abc);
  // c is the first that backward needs; a the last, so a made room.
  CHECK(run.engine->live_bytes() <= Bytes{216});
  CHECK(run.why("c.w").starts_with("kept for visit"));
  CHECK(run.why("a.w") == "not live");
  run.backward(abc);
}

TEST_CASE("after another order was recorded nothing is freed to be gathered again (DeepSpeed Z4)",
          "[zero3][strict]") {
  StrictRun run(within(1000));
  run.train(2);
  for (const auto& order : {std::vector{b, a, c}, {b, a, c}, {c, b, a}, abc, {b, a, c}}) {
    const std::size_t from = run.recording.records.size();
    run.pass(order);
    run.ok(run.engine->step({}));
    for (const char* name : {"a.w", "b.w", "c.w"}) {
      INFO(name);
      CHECK(run.count(marks::in_flight, name, from) == 1);
    }
  }
}

TEST_CASE("a graph that changes with gathers in flight goes on, and leaves nothing (DeepSpeed Z5)",
          "[zero3][strict]") {
  const auto budget = GENERATE(120, 184, 1000);
  StrictRun run(within(budget));
  run.train(2);
  run.pass({c});  // a and b were expected, and fly
  CHECK(run.engine->live().empty());
  run.ok(run.engine->step({}));
  run.pass({});
  run.pass({a, c, a, b});
  run.pass(abc);
  CHECK(run.engine->live_bytes() == Bytes{0});
  run.forward({a});  // and an evaluation that stops halfway
  CHECK_FALSE(run.engine->live().empty());
}

TEST_CASE("a known order is gathered ahead again in the pass in which it comes back",
          "[zero3][strict]") {
  StrictRun run(within(1000));
  const std::vector<ModuleId> other = {a, c, b, b};
  run.pass(abc);
  run.pass(other);
  run.pass(abc);
  const std::size_t from = run.recording.records.size();
  run.pass(other);  // after abc came this one
  CHECK(run.count(marks::trace_mismatch, "c", from) == 0);
  run.pass(other);  // not expected: abc was
  CHECK(run.count(marks::trace_mismatch, "c", from) == 1);
  CHECK(run.count(marks::trace_mismatch, "b", from) == 0);
}

TEST_CASE("what the next micro-batch needs first is there before it begins", "[zero3][strict]") {
  StrictRun run(within(1000));
  auto steps = [&run](int passes) {
    for (int pass = 0; pass < passes; ++pass) run.pass(abc);
    run.ok(run.engine->step({}));
  };
  steps(3);
  const std::size_t from = run.recording.records.size();
  run.pass(abc);
  CHECK(run.why("a.w") == "kept for visit 1, of module a");
  run.pass(abc);
  run.pass(abc);
  CHECK(run.engine->live().empty());  // the optimizer comes
  run.ok(run.engine->step({}));
  CHECK(run.count(marks::in_flight, "a.w", from) == 1);
  run.pass(abc);
  run.ok(run.engine->step({}));  // earlier than expected
  CHECK(run.engine->live().empty());
  run.pass(abc);
  CHECK(run.engine->live().empty());
}

TEST_CASE("the visits of evaluation do not disturb those of training", "[zero3][strict]") {
  StrictRun run(within(1000));
  run.train(1);
  const std::size_t from = run.recording.records.size();
  REQUIRE(run.engine->next_forward({.use = ForwardPass::Use::evaluate}).ok());
  run.forward(abc);
  CHECK(run.engine->live().empty());
  run.train(1);
  for (const char* name : {"", "a", "b", "c"}) {
    CHECK(run.count(marks::trace_mismatch, name, from) == 0);
  }
}

TEST_CASE("every visit of a repeated module is counted, the last one frees (DeepSpeed Z6)",
          "[zero3][strict]") {
  Model model = net3({.widths = {4, 4, 4, 4}});
  model.forward = {a, b, b, b, c};
  StrictRun run(within(1000), model);
  for (int step = 0; step < 2; ++step) {
    const std::size_t from = run.recording.records.size();
    run.forward(model.forward);
    CHECK(run.why("b.w") == "kept for visit 8, of module b");
    run.ok(run.engine->begin_backward());
    run.ok(run.engine->pre_backward(root));
    for (ModuleId module : {c, b, b, b}) {
      CHECK(run.why("b.w") != "not live");
      run.ok(run.engine->pre_backward(module));
      run.ok(run.engine->post_backward(module));
    }
    CHECK(run.why("b.w") == "not live");
    run.ok(run.engine->pre_backward(a));
    CHECK(run.why("a.w") == "active in module a");
    run.ok(run.engine->post_backward(a));  // although its input needs no gradient
    CHECK(run.engine->live().empty());
    run.ok(run.engine->post_backward(root));
    run.ok(run.engine->end_backward());
    CHECK(run.count(marks::in_flight, "b.w", from) == 1);
    CHECK(run.engine->live().empty());
    run.ok(run.engine->step({}));
  }
}

TEST_CASE("a tied parameter is not freed between its modules (DeepSpeed Z6)", "[zero3][strict]") {
  Model model = net3({.widths = {4, 4, 4, 4}});
  model.parameters.pop_back();  // c.w is a.w
  model.modules[3].parameters.clear();
  model.ties.push_back({"c.w", ParameterId{0}});
  StrictRun run(within(128), model);  // both fit
  for (int step = 0; step < 2; ++step) {
    const std::size_t from = run.recording.records.size();
    run.train(1);
    CHECK(run.count(marks::in_flight, "a.w", from) == 1);
  }
}

TEST_CASE("small parameters stay from the first step on (DeepSpeed Z11)", "[zero3][strict]") {
  Zero3Options options = within(280);
  options.persistence_threshold = Numel{15};  // c
  StrictRun run(options);
  for (int micro_batch = 0; micro_batch < 3; ++micro_batch) run.pass(abc);
  CHECK(run.count(marks::in_flight, "c.w") == 1);
  CHECK(run.why("c.w") == "persistent: small enough to stay");
  run.ok(run.engine->step({}));
  CHECK(run.engine->live().empty());
}

TEST_CASE("every live parameter says why", "[zero3][strict]") {
  StrictRun run(within(1000));
  run.ok(run.engine->begin_forward());
  run.ok(run.engine->pre_forward(root));
  CHECK(run.why("a.w") == "prefetched for visit 1, of module a");
  run.ok(run.engine->pre_forward(a));
  CHECK(run.why("a.w") == "active in module a");
  run.ok(run.engine->post_forward(a));
  CHECK(run.why("a.w") == "kept for visit 7, of module a");
  Bytes sum{};
  for (const LiveParameter& live : run.engine->live()) sum += live.bytes;
  CHECK(sum <= run.engine->live_bytes());
  CHECK(run.engine->live().size() == 3);
}

TEST_CASE("what is only kept may not be used without being asked for", "[zero3][strict]") {
  StrictRun run(within(1000));
  run.ok(run.engine->begin_forward());
  run.ok(run.engine->pre_forward(a));
  run.ok(run.engine->post_forward(a));
  const Status status = run.engine->compute({.module = a});
  CHECK(status.code() == Code::invalid_argument);
  CHECK(
      status.message().find("a.w is used while it is partitioned: call pre_forward for module a") !=
      std::string::npos);
}

TEST_CASE("a budget that cannot work is refused with the smallest that does",
          "[zero3][strict][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = net3();
  const Status status = zero3(*runtime, model, within(119)).status();
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() ==
        "module 'b' needs 120 bytes of gathered parameters at once, more than the live budget of "
        "119: the smallest that works for net3 is 120 bytes");
  StrictRun run(within(120));
  run.train(2);
  const Status more = run.engine->register_external_parameter(c, ParameterId{0});
  CHECK(more.message().find("module 'c' needs 160 bytes") != std::string::npos);
  run.train(1);  // it was not registered
}

TEST_CASE("without a budget there is room for two of the largest module", "[zero3][strict]") {
  Zero3Options options;
  options.max_live_parameters = Numel{10};
  const StrictRun raised(options);
  CHECK(raised.engine->live_budget() == Bytes{240});
  CHECK(raised.engine->warnings() ==
        std::vector<std::string>{
            "max_live_parameters 10 is less than two of the largest module need: the live budget "
            "is 240 bytes instead; live_budget may set less"});
  options.max_live_parameters = Numel{100};
  const StrictRun enough(options);
  CHECK(enough.engine->live_budget() == Bytes{400});
  CHECK(enough.engine->warnings().empty());
  options.policy = Zero3Policy::compatible;
  CHECK_FALSE(StrictRun(options).engine->live_budget().has_value());
}

}  // namespace
}  // namespace tessera
