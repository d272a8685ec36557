// SPDX-License-Identifier: Apache-2.0
// Wrap plans, ignored parameters and the controls of fully_shard.
#include <catch2/catch.hpp>
#include <map>

#include "tessera/recording.h"
#include "tessera/scheme.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/base/models.h"
#include "tests/sim/test_costs.h"

namespace tessera {
namespace {

int count(const Recording& recording, OpKind kind, Phase phase) {
  int n = 0;
  for (const Record& r : recording.records) {
    n += r.kind == Record::Kind::op && kind_of(r.op) == kind && r.cause.phase == phase ? 1 : 0;
  }
  return n;
}

TEST_CASE("ignored parameters are whole on every rank, not gathered and not reduced", "[shard]") {
  const Model model = test::g3();
  const auto plan = plan_wrapping(model, LambdaWrap{[](const Module& m) { return m.path == "L1"; }},
                                  {.ignored_modules = {"L2"}});
  REQUIRE(plan.ok());
  const Scheme scheme = GENERATE_COPY(
      values<Scheme>({FullyShardOptions{.plan = *plan}, Fsdp1Options{.plan = *plan}}));
  INFO(name_of(scheme));
  const test::TestCosts costs;
  auto runtime = sim::LockstepRuntime::create({.world_size = 3, .cost = &costs, .numerics = true});
  REQUIRE(runtime.ok());
  auto engine = make_engine(**runtime, model, scheme);
  REQUIRE(engine.ok());
  REQUIRE((*engine)->initialise([](ParameterId, Numel i) { return 1.0F + float(i.value); }).ok());
  TrainingOptions training;
  training.accumulation = 2;
  training.body = [&](ModuleId module, ModuleWork::Pass pass,
                      std::int32_t) -> std::function<void(const BodyContext&)> {
    if (pass != ModuleWork::Pass::backward) return {};
    return [n = model.module(module).parameters.size()](const BodyContext& context) {
      for (std::size_t k = 0; k < n; ++k) {
        for (float& g : context.write_as<float>(k)) g += context.rank() == 0 ? 1.0F : -1.0F;
      }
    };
  };
  const Status status = run_training_step(**engine, model, training);
  INFO(status.message());
  REQUIRE(status.ok());
  std::vector<float> first_of_rank;
  REQUIRE((*engine)
              ->inspect_shards(model.find_parameter("L2.weight"),
                               [&](Rank, Numel first, std::span<const float> values) {
                                 CHECK(first == Numel{0});
                                 CHECK(values.size() == 21);
                                 first_of_rank.push_back(values[0]);
                               })
              .ok());
  // Every rank stepped by its own gradient: Adam's first step is the learning rate.
  REQUIRE(first_of_rank.size() == 3);
  CHECK(first_of_rank[0] == Approx(1.0F - 1e-3F));
  CHECK(first_of_rank[1] == Approx(1.0F + 1e-3F));
  CHECK(first_of_rank[2] == first_of_rank[1]);
}

TEST_CASE("a unit of full precision is gathered and reduced in full precision", "[shard]") {
  const Model model = test::g3();
  const auto plan = plan_wrapping(model, CustomWrap{[](const Module& m) -> WrapChoice {
                                    if (m.path == "L1")
                                      return UnitOverrides{.mixed_precision = false};
                                    return m.path == "L2";
                                  }},
                                  {.root = {.mixed_precision = true}});
  REQUIRE(plan.ok());
  for (const Scheme& scheme :
       {Scheme(FullyShardOptions{.plan = *plan, .param_dtype = DType::bfloat16}),
        Scheme(Fsdp1Options{.plan = *plan, .param_dtype = DType::bfloat16})}) {
    Recording recording;
    auto runtime = make_recording_runtime(4, recording);
    auto engine = make_engine(*runtime, model, scheme);
    REQUIRE(engine.ok());
    REQUIRE(run_training_step(**engine, model, {}).ok());
    int checked = 0;
    for (const Record& r : recording.records) {
      if (r.kind != Record::Kind::op) continue;
      const auto* gather = std::get_if<AllGather>(&r.op.what);
      if (gather == nullptr) continue;
      CHECK(gather->output.dtype == (r.cause.unit == "L1" ? DType::float32 : DType::bfloat16));
      ++checked;
    }
    CHECK(checked == 5);
  }
}

TEST_CASE("a unit with a mesh of its own is gathered and reduced by that mesh", "[shard]") {
  const Model model = test::g3();
  const auto plan = read_wrap_plan(R"({"tessera_plan": 1, "units": [
      {"modules": "", "shard_group": 1}, {"modules": "L1", "shard_group": 2},
      {"modules": "L2"}, {"modules": "L3", "reshard_group": 2}]})",
                                   "plan", model);
  REQUIRE(plan.ok());
  Recording recording;
  auto runtime = make_recording_runtime(4, recording);
  auto engine = fully_shard(*runtime, model, {.plan = *plan});
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  std::map<std::string, std::string> seen;  // by unit: each collective and its group's size
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op) continue;
    if (const auto* o = std::get_if<AllGather>(&r.op.what)) {
      seen[std::string(r.cause.unit)] +=
          " gather " + std::to_string(o->output.numel.value / o->input.numel.value);
    } else if (const auto* s = std::get_if<ReduceScatter>(&r.op.what)) {
      seen[std::string(r.cause.unit)] +=
          " scatter " + std::to_string(s->input.numel.value / s->output.numel.value);
    } else if (std::holds_alternative<AllReduce>(r.op.what)) {
      seen[std::string(r.cause.unit)] += " all_reduce";
    }
  }
  CHECK(seen["root"] == " all_reduce");
  CHECK(seen["L1"] == " gather 2 gather 2 scatter 2 all_reduce");
  CHECK(seen["L2"] == " gather 4 gather 4 scatter 4");
  CHECK(seen["L3"] == " gather 4 gather 2 scatter 4");
  for (const auto& [settings, words] : std::map<std::string, std::string>{
           {R"("shard_group": 3)", "unit L1: "}, {R"("reshard_group": 3)", "unit L1: "}}) {
    const auto bad = read_wrap_plan(
        R"({"tessera_plan": 1, "units": [{"modules": "L1", )" + settings + "}]}", "plan", model);
    REQUIRE(bad.ok());
    auto other = make_recording_runtime(4, recording);
    const auto refused = fully_shard(*other, model, {.plan = *bad});
    REQUIRE(!refused.ok());
    CHECK(refused.status().message().starts_with(words));
    CHECK(refused.status().message().find('3') != std::string::npos);
    const auto flat = fsdp1(*other, model, {.plan = *bad});
    REQUIRE(!flat.ok());
    CHECK(flat.status().message().find("fully_shard takes all") != std::string::npos);
  }
}

TEST_CASE("explicit prefetch gathers what it was told to", "[shard]") {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto made = fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}});
  REQUIRE(made.ok());
  FullyShard& engine = **made;
  auto id = [&](const char* path) { return model.find_module(path); };
  REQUIRE(engine.set_modules_to_forward_prefetch(id("L1"), {id("L2"), id("L3")}).ok());
  REQUIRE(engine.set_modules_to_backward_prefetch(id("L3"), {id("L2"), id("L1")}).ok());
  REQUIRE(run_training_step(engine, model, {}).ok());
  std::vector<std::string> gathers;
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op || kind_of(r.op) != OpKind::all_gather) continue;
    const char* why = r.cause.reason == Reason::needed ? "" : "+";
    gathers.push_back(why + std::string(r.cause.unit));
  }
  CHECK(gathers == std::vector<std::string>{"root", "L1", "+L2", "+L3", "+L3", "+L2", "+L1"});
}

// torch foreach_reduce: only what has a gradient is packed.
TEST_CASE("frozen parameters of a unit are gathered, and not reduced", "[shard]") {
  Model model = test::g3();
  model.parameters[model.find_parameter("L2.weight").index()].requires_grad = false;
  for (Module& m : model.modules) {
    m.cost = {.matmul_flops = {0, 42, 0}, .activation_bytes = {0, 16, 0}};
  }
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine =
      fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}, .param_dtype = DType::float32});
  REQUIRE(engine.ok());
  const Status status = run_training_step(**engine, model, {});
  INFO(status.message());
  REQUIRE(status.ok());
  std::map<std::string, std::int64_t> reduced;
  std::map<std::string, double> flops;
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op) continue;
    const std::string unit(r.cause.unit);
    if (const auto* o = std::get_if<ReduceScatter>(&r.op.what)) {
      reduced[unit] = o->input.numel.value;
    }
    const auto* work = std::get_if<Compute>(&r.op.what);
    if (work != nullptr && r.cause.phase == Phase::backward) flops[unit] += work->cost.matmul_flops;
  }
  // L2 has 7 -> 3: its bias, padded to 4 elements, is all that is reduced.
  CHECK(reduced["L2"] == 4);
  CHECK(reduced["L1"] == 2 * 4 * 5 + 2 * 4);
  CHECK(flops["L1"] == 84);
  CHECK(flops["L2"] == 42);  // of the input alone
}

TEST_CASE("a unit without parameters does not take the place of the next to prefetch", "[shard]") {
  const Model model = *parse_model(R"({"tessera_model": 1, "name": "n", "root": {"class": "N",
    "modules": [
      {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
      {"name": "b", "class": "Block", "modules": [
        {"name": "c", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]}]},
      {"name": "d", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]}]}})",
                                   "n");
  const Scheme scheme = GENERATE(values<Scheme>({FullyShardOptions{.units = {"a", "b", "b.c", "d"}},
                                                 Fsdp1Options{.units = {"a", "b", "b.c", "d"}}}));
  INFO(name_of(scheme));
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto engine = make_engine(*runtime, model, scheme);
  REQUIRE(engine.ok());
  REQUIRE(run_training_step(**engine, model, {}).ok());
  std::vector<std::string> ahead;
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op || kind_of(r.op) != OpKind::all_gather) continue;
    if (r.cause.reason == Reason::backward_prefetch) ahead.emplace_back(r.cause.unit);
  }
  CHECK(ahead == std::vector<std::string>{"b.c", "a"});
}

TEST_CASE("units that a step does not use, or does not train, cost no collective", "[shard]") {
  Model model = test::linear_model(
      "partly", {{"in", 4, 4}, {"unused", 4, 4}, {"frozen", 4, 4}, {"out", 4, 4}},
      {"in", "frozen", "out"});
  for (Parameter& p : model.parameters) p.requires_grad = !p.name.starts_with("frozen");
  bool in_is_frozen = GENERATE(false, true);
  if (in_is_frozen) model.parameters[0].requires_grad = model.parameters[1].requires_grad = false;
  using S = ShardingStrategy;
  const std::vector<std::string> units = {"in", "unused", "frozen", "out"};
  const Scheme scheme = GENERATE_COPY(values<Scheme>(
      {FullyShardOptions{.units = units},
       FullyShardOptions{.units = units, .reshard_after_forward = ReshardAfterForward::never},
       Fsdp1Options{.units = units}, Fsdp1Options{.units = units, .strategy = S::shard_grad_op},
       Fsdp1Options{.units = units, .backward_prefetch = BackwardPrefetch::post}}));
  INFO(name_of(scheme) << ", in frozen " << in_is_frozen);
  Recording recording;
  auto runtime = make_recording_runtime(4, recording);
  auto engine = make_engine(*runtime, model, scheme);
  REQUIRE(engine.ok());
  for (int step = 0; step < 3; ++step) {
    const Status status = run_training_step(**engine, model, {});
    INFO(status.message());
    REQUIRE(status.ok());
  }
  for (const Record& r : recording.records) {
    if (r.kind != Record::Kind::op || r.cause.phase == Phase::init) continue;
    const OpKind kind = kind_of(r.op);
    const bool gather = kind == OpKind::all_gather;
    if (!gather && kind != OpKind::reduce_scatter) continue;
    INFO(to_line(recording, r));
    CHECK(r.cause.unit != "unused");
    if (r.cause.unit == "frozen") CHECK(gather);
    // Without gradients before it, a frozen unit is not needed in backward at all.
    const bool idle = in_is_frozen && (r.cause.unit == "in" || r.cause.unit == "frozen");
    if (idle) CHECK(r.cause.phase == Phase::forward);
  }
}

TEST_CASE("a unit gathered by hand is not gathered again", "[shard]") {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto made = fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}});
  REQUIRE(made.ok());
  REQUIRE((*made)->unshard(model.find_module("L2")).ok());
  REQUIRE(run_training_step(**made, model, {}).ok());
  CHECK(count(recording, OpKind::all_gather, Phase::init) == 1);
  CHECK(count(recording, OpKind::all_gather, Phase::forward) == 3);
  REQUIRE((*made)->unshard(model.find_module("L3")).ok());
  REQUIRE((*made)->reshard(model.find_module("L3")).ok());
}

TEST_CASE("without resharding after backward the next micro-batch gathers nothing", "[shard]") {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  auto made = fully_shard(
      *runtime, model,
      {.units = {"L1", "L2", "L3"}, .reshard_after_forward = ReshardAfterForward::never});
  REQUIRE(made.ok());
  (*made)->set_reshard_after_backward(false);
  REQUIRE(run_training_step(**made, model, {.accumulation = 3}).ok());
  CHECK(count(recording, OpKind::all_gather, Phase::forward) == 4);
  CHECK(count(recording, OpKind::all_gather, Phase::backward) == 0);
  REQUIRE(run_training_step(**made, model, {}).ok());  // the optimizer's values are gathered
  CHECK(count(recording, OpKind::all_gather, Phase::forward) == 8);
}

TEST_CASE("replicas may keep gradients to themselves until the last micro-batch", "[shard]") {
  const Model model = test::g3();
  Recording recording;
  auto runtime = make_recording_runtime(4, recording);
  auto made = fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}, .shard_group = 2});
  REQUIRE(made.ok());
  auto pass = [&](bool all_reduce, bool last) {
    (*made)->set_requires_all_reduce(all_reduce);
    (*made)->set_is_last_backward(last);
    REQUIRE((*made)->begin_forward().ok());
    REQUIRE((*made)->pre_forward(ModuleId{0}).ok());
    for (ModuleId m : model.forward) {
      REQUIRE((*made)->pre_forward(m).ok());
      REQUIRE((*made)->compute({.module = m}).ok());
      REQUIRE((*made)->post_forward(m).ok());
    }
    REQUIRE((*made)->post_forward(ModuleId{0}).ok());
    REQUIRE((*made)->begin_backward().ok());
    REQUIRE((*made)->pre_backward(ModuleId{0}).ok());
    for (auto m = model.forward.rbegin(); m != model.forward.rend(); ++m) {
      REQUIRE((*made)->pre_backward(*m).ok());
      REQUIRE((*made)->compute({.module = *m, .pass = ModuleWork::Pass::backward}).ok());
      REQUIRE((*made)->post_backward(*m).ok());
    }
    REQUIRE((*made)->post_backward(ModuleId{0}).ok());
    REQUIRE((*made)->end_backward().ok());
  };
  pass(false, false);
  pass(true, true);
  const Status stepped = (*made)->step({});
  INFO(stepped.message());
  REQUIRE(stepped.ok());
  CHECK(count(recording, OpKind::reduce_scatter, Phase::backward) == 8);
  CHECK(count(recording, OpKind::all_reduce, Phase::backward) == 4);
}

TEST_CASE("a unit may keep its gradients to itself, but not over a step", "[shard]") {
  const Model model = test::g3();
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto engine = fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}});
  REQUIRE(engine.ok());
  const ModuleId l2 = model.find_module("L2");
  auto reduced = [&] { return count(recording, OpKind::reduce_scatter, Phase::backward); };
  auto pass = [&](bool changes_in_between) {
    Engine& e = **engine;
    const int before = reduced();
    REQUIRE(e.begin_forward().ok());
    REQUIRE(e.pre_forward(ModuleId{0}).ok());
    for (const ModuleId m : model.forward) {
      REQUIRE(e.pre_forward(m).ok());
      REQUIRE(e.compute({.module = m}).ok());
      REQUIRE(e.post_forward(m).ok());
    }
    REQUIRE(e.post_forward(ModuleId{0}).ok());
    REQUIRE(e.begin_backward().ok());
    if (changes_in_between) {  // the next pass has it
      REQUIRE((*engine)->set_requires_gradient_sync(l2, true).ok());
    }
    REQUIRE(e.pre_backward(ModuleId{0}).ok());
    for (std::size_t k = model.forward.size(); k-- > 0;) {
      const ModuleId m = model.forward[k];
      REQUIRE(e.pre_backward(m).ok());
      REQUIRE(e.compute({.module = m, .pass = ModuleWork::Pass::backward}).ok());
      REQUIRE(e.post_backward(m).ok());
    }
    REQUIRE(e.post_backward(ModuleId{0}).ok());
    REQUIRE(e.end_backward().ok());
    return reduced() - before;
  };
  CHECK(pass(false) == 4);
  REQUIRE((*engine)->set_requires_gradient_sync(l2, false).ok());
  CHECK(pass(true) == 3);
  const Status refused = (*engine)->step({});
  CHECK(refused.message().find("gradients of L2 were not reduced") == 0);
  CHECK(pass(false) == 4);
  CHECK((*engine)->step({}).ok());
  REQUIRE((*engine)->set_requires_gradient_sync(ModuleId{0}, false).ok());  // and all below
  CHECK(pass(false) == 0);
  REQUIRE((*engine)->set_requires_gradient_sync(ModuleId{0}, true, /*recurse=*/false).ok());
  CHECK(pass(false) == 1);
  CHECK((*engine)->set_requires_gradient_sync(ModuleId{77}, true).message() ==
        "set_requires_gradient_sync: module id 77 is no sharding unit");
}

}  // namespace
}  // namespace tessera
