// SPDX-License-Identifier: Apache-2.0
// Optimizer state leaves and enters engines of every scheme and size.
#include "tessera/optimizer_state.h"

#include <bit>
#include <catch2/catch.hpp>
#include <map>

#include "tests/base/every_scheme.h"

namespace tessera {
namespace {

using test::check_refused;
using test::EveryScheme;
using test::require_ok;

// Powers of two: all schemes divide alike, to the bit.
void train(EveryScheme& run, const Model& model, int steps) {
  for (int step = 0; step < steps; ++step) {
    require_ok(run_training_step(*run.engine, model, test::formula_training(model)));
  }
}

test::FormulaTraining reference_of(const Model& model, Rank ranks, int steps) {
  test::FormulaTraining reference(model);
  for (int step = 0; step < steps; ++step) {
    reference.step(RankSet::all(ranks), ranks, static_cast<float>(ranks));
  }
  return reference;
}

OptimizerState consolidated(EveryScheme& run, const ReadStateOptions& options = {}) {
  const auto state = consolidate_optimizer_state(*run.engine, options);
  INFO(state.status().message());
  REQUIRE(state.ok());
  return *state;
}

void check_state(const OptimizerState& state, const Model& model,
                 const test::FormulaTraining& expected) {
  REQUIRE(state.parameters.size() == model.parameters.size());
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const ParameterState& one = state.parameters[p];
    const auto& elements = expected.elements.at(static_cast<std::int32_t>(p));
    INFO(one.name);
    CHECK(one.name == model.parameters[p].name);
    CHECK(one.step == elements[0].t);
    REQUIRE(one.exp_avg.size() == elements.size());
    REQUIRE(one.exp_avg_sq.size() == elements.size());
    std::size_t different = 0;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      different += one.exp_avg[i] != elements[i].m || one.exp_avg_sq[i] != elements[i].v ? 1U : 0U;
    }
    CHECK(different == 0);
  }
}

TEST_CASE("state is whole and one entry per parameter, on every scheme", "[state]") {
  const Model model = test::g3();
  const Rank ranks = GENERATE(1, 2, 4);
  EveryScheme run(GENERATE(range(0, EveryScheme::count)), ranks, model);
  INFO(run.name << " on " << ranks);
  CHECK(consolidated(run).parameters.empty());
  train(run, model, 3);
  const auto reference = reference_of(model, ranks, 3);
  check_state(consolidated(run), model, reference);
  check_state(consolidated(run, {.recipient = ranks - 1, .staging = Bytes{32}}), model, reference);
  train(run, model, 1);  // nothing was changed by looking
  reference_of(model, ranks, 4).check(*run.engine, 0);
  require_ok(run.runtime->finish());
}

TEST_CASE("only AdamW's states that a step changes are read and loaded", "[state][errors]") {
  const Model model = test::g3();
  EveryScheme run(GENERATE(range(0, EveryScheme::count)), 2, model);
  const auto [adam, said] = GENERATE(table<AdamOptions, std::string>({
      {{.states = 1}, "keeps 1 states per element of "},
      {{.states = 0}, "keeps 0 states per element of "},
      {{.state_type = StateType::int8}, " in another type: only AdamW's 2 in float32 can be read"},
  }));
  INFO(run.name << ": " << said);
  TrainingOptions training = test::formula_training(model);
  training.adam = adam;
  training.body = {};
  require_ok(run_training_step(*run.engine, model, training));
  for (const Status& status : {consolidate_optimizer_state(*run.engine, {}).status(),
                               load_optimizer_state(*run.engine, {})}) {
    INFO(status.message());
    CHECK(status.code() == Code::not_supported);
    CHECK(status.message().find(said) != std::string::npos);
  }
  require_ok(read_parameters(*run.engine, {}, [](Rank, const StateRange&) {}));
  require_ok(run.runtime->finish());
}

TEST_CASE("states in bfloat16 go into another scheme and number of ranks with their bits",
          "[state]") {
  const Model model = test::g3();
  const auto stepped = [&](EveryScheme& run, int steps) {
    TrainingOptions training = test::formula_training(model);
    training.adam.state_type = StateType::bfloat16;
    for (int step = 0; step < steps; ++step) {
      require_ok(run_training_step(*run.engine, model, training));
    }
  };
  const auto all_of = [](EveryScheme& run) {
    std::map<std::string, std::pair<std::vector<float>, std::vector<float>>> all;
    for (const ParameterState& one : consolidated(run).parameters) {
      all[one.name] = {one.exp_avg, one.exp_avg_sq};
    }
    return all;
  };
  EveryScheme first(0, 4, model);
  stepped(first, 3);
  const OptimizerState saved = consolidated(first);
  const auto at = all_of(first);
  bool halves = true;
  for (const auto& [name, moments] : at) {
    for (const float x : moments.first) halves &= (std::bit_cast<std::uint32_t>(x) & 0xFFFFU) == 0;
  }
  CHECK(halves);
  EveryScheme other(GENERATE(range(0, EveryScheme::count)), 4, model);
  INFO(other.name);
  stepped(other, 3);
  CHECK(all_of(other) == at);
  EveryScheme resumed(GENERATE(range(0, EveryScheme::count)), 3, model);
  require_ok(keep_optimizer_states_as(*resumed.engine, StateType::bfloat16));
  require_ok(load_optimizer_state(*resumed.engine, saved));
  CHECK(all_of(resumed) == at);
  stepped(resumed, 1);
  const Status eight = keep_optimizer_states_as(*resumed.engine, StateType::int8);
  CHECK(eight.message().find("is stepped with states in float32 or bfloat16 only") !=
        std::string::npos);
}

TEST_CASE("state goes into another scheme and number of ranks", "[state]") {
  const Model model = test::g3();
  const int from = GENERATE(range(0, EveryScheme::count));
  const int to = GENERATE(range(0, EveryScheme::count));
  EveryScheme first(from, 4, model);
  train(first, model, 3);
  const OptimizerState saved = consolidated(first);
  {
    EveryScheme other(to, 3, model);
    INFO(first.name << " on 4 to " << other.name << " on 3");
    train(other, model, 1);  // what it had is replaced
    require_ok(load_optimizer_state(*other.engine, saved));
    check_state(consolidated(other), model, reference_of(model, 4, 3));
  }
  // And training goes on as if nothing had happened.
  EveryScheme resumed(to, 4, model);
  const auto reference = reference_of(model, 4, 3);
  require_ok(resumed.engine->initialise([&](ParameterId id, Numel i) {
    return reference.elements.at(id.value)[static_cast<std::size_t>(i.value)].value;
  }));
  require_ok(load_optimizer_state(*resumed.engine, saved));
  train(resumed, model, 2);
  check_state(consolidated(resumed), model, reference_of(model, 4, 5));
  reference_of(model, 4, 5).check(*resumed.engine, 0);
  require_ok(resumed.runtime->finish());
}

TEST_CASE("no device holds more than the staging of others' state (fairscale F9)", "[state]") {
  const Model model = test::g3();
  EveryScheme run(GENERATE(range(0, EveryScheme::count)), 4, model);
  INFO(run.name);
  train(run, model, 1);
  const Bytes staging{GENERATE(16, 64, 1 << 20)};
  run.memory->forget_peak();
  const Bytes before = run.memory->bytes_now();
  std::map<std::tuple<Rank, ParameterId, StateTensor, Numel>, int> seen;
  require_ok(read_optimizer_state(
      *run.engine, {.recipient = all_ranks, .staging = staging},
      [&](Rank rank, const StateRange& range) {
        CHECK(bytes_of(Numel{std::ssize(range.values)}, DType::float32) <= staging);
        for (std::int64_t i = 0; i < std::ssize(range.values); ++i) {
          ++seen[{rank, range.parameter, range.tensor, range.first + Numel{i}}];
        }
      }));
  CHECK(run.memory->peak() <= before + staging);
  CHECK(run.memory->bytes_now() == before);
  CHECK(seen.size() == static_cast<std::size_t>(4 * 2 * model.parameter_count().value));
  for (const auto& [element, times] : seen) {
    if (times != 1) FAIL_CHECK("an element came " << times << " times");
  }
}

TEST_CASE("state that does not fit is refused and changes nothing", "[state][errors]") {
  const Model model = test::g3();
  EveryScheme run(4, 2, model);
  train(run, model, 1);
  const OptimizerState before = consolidated(run);
  auto refused = [&](auto change, const std::string& part) {
    OptimizerState state = before;
    change(state);
    check_refused(load_optimizer_state(*run.engine, state), part);
  };
  refused([](auto& s) { s.parameters[1].name = "L9.weight"; }, "L9.weight: g3 has no such");
  refused([](auto& s) { s.parameters[1].exp_avg.pop_back(); }, "has 4 and 5 elements");
  refused([](auto& s) { s.parameters[1].step = 0; }, "step must be at least 1, found 0");
  check_refused(read_optimizer_state(*run.engine, {.recipient = 2}, {}), "recipient 2");
  check_refused(read_optimizer_state(*run.engine, {.staging = Bytes{3}}, {}), "at least 4");
  require_ok(run.engine->begin_forward());
  check_refused(load_optimizer_state(*run.engine, before), "was called in forward");
  require_ok(run.engine->begin_backward());
  require_ok(run.engine->end_backward());
  check_state(consolidated(run), model, reference_of(model, 2, 1));
}

}  // namespace
}  // namespace tessera
