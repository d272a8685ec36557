// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/module_trace.h"

#include <catch2/catch.hpp>

#include "tests/random.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera {
namespace {

constexpr ModuleId root{0}, a{1}, b{2}, c{3};
constexpr ParameterId aw{0}, bw{1}, cw{2};  // 24, 30 and 15 elements

struct Traced {
  Model model = test::net3();
  ModuleTrace::Needs needs = {{}, {aw}, {bw}, {cw}};
  ModuleTrace trace{model, needs};

  bool run(const std::vector<ModuleId>& order) {
    bool known = true;
    for (ModuleId module : order) {
      known = trace.visit(module) && known;
      trace.advance();
    }
    return known;
  }
  // Visits `module` of a complete trace.
  void take(ModuleId module) {
    REQUIRE(trace.visit(module));
    REQUIRE(trace.take(module).ok());
  }
};

bool nothing_there(ParameterId) { return true; }
bool none(ParameterId) { return false; }

TEST_CASE("one mismatch costs two steps: the rest of it, and the one that records", "[zero3]") {
  Traced t;
  CHECK(t.trace.mode() == ModuleTrace::Mode::record);
  CHECK(t.run({root, a, b}));
  t.trace.reset();
  CHECK(t.trace.mode() == ModuleTrace::Mode::complete);
  CHECK(t.run({root, a, b}));
  t.trace.reset();
  CHECK(t.trace.mode() == ModuleTrace::Mode::complete);
  CHECK_FALSE(t.run({root, b}));
  CHECK(t.trace.mode() == ModuleTrace::Mode::invalid);
  t.trace.reset();
  CHECK(t.trace.mode() == ModuleTrace::Mode::record);
  CHECK(t.run({root, b}));
  t.trace.reset();
  CHECK(t.trace.complete());
  REQUIRE(t.trace.uses().size() == 1);
  CHECK(t.trace.uses()[0].step == 1);
}

TEST_CASE("what may be freed is what a walk over the next modules does not meet", "[zero3]") {
  const std::uint64_t seed = GENERATE(range(1, 41));
  INFO("seed " << seed);
  test::Random random(seed);
  Traced t;
  const ModuleId modules[] = {root, a, b, c};
  for (const ModuleId module : modules) {
    t.needs[module.index()].clear();
    for (const ParameterId id : {aw, bw, cw}) {
      if (random.chance(50)) t.needs[module.index()].push_back(id);
    }
  }
  std::vector<ModuleId> order;
  for (std::int64_t k = 2 + random.below(30); k > 0; --k) order.push_back(modules[random.below(4)]);
  CHECK(t.run(order));
  t.trace.reset();
  for (std::size_t k = 0; k < order.size(); ++k) {
    t.take(order[k]);
    t.trace.advance();
    const Numel distance{random.below(200)};
    std::vector<ParameterId> expected = t.needs[order[k].index()];
    Numel seen{};
    for (std::size_t next = k + 1; next < order.size() && seen < distance; ++next) {
      for (const ParameterId id : t.needs[order[next].index()]) {
        std::erase(expected, id);
        seen += t.model.parameter(id).numel();
      }
    }
    CHECK(t.trace.releasable(order[k], distance, none) == expected);
  }
}

TEST_CASE("a pass that goes on after the recorded end is a mismatch", "[zero3]") {
  Traced t;
  CHECK(t.run({root, a}));
  t.trace.reset();
  CHECK_FALSE(t.run({root, a, b}));
  CHECK(t.trace.mode() == ModuleTrace::Mode::invalid);
}

TEST_CASE("gathering ahead overshoots its budget by part of a parameter at most", "[zero3]") {
  const auto [budget, expected] = GENERATE(table<std::int64_t, std::vector<ParameterId>>({
      {0, {}},
      {-5, {}},
      {1, {aw}},
      {24, {aw}},
      {25, {aw, bw}},
      {55, {aw, bw, cw}},
  }));
  Traced t;
  CHECK(t.run({root, a, b, c, root, c, b, a}));
  t.trace.reset();
  t.take(root);
  CHECK(t.trace.ahead(Numel{budget}, nothing_there) == expected);
}

TEST_CASE("what is there when gathering ahead comes by is kept for its later use", "[zero3]") {
  Traced t;
  CHECK(t.run({root, a, b, c, root, c, b, a}));
  t.trace.reset();
  for (ModuleId module : {root, a, b, c}) {
    t.take(module);
    if (module != c) t.trace.advance();
  }
  const auto all_but_c = [](ParameterId id) { return id != cw; };
  CHECK(t.trace.ahead(Numel{1}, all_but_c) == std::vector{bw});
  t.trace.advance();
  CHECK(t.trace.releasable(c, Numel{0}, none).empty());
}

TEST_CASE("what is used again nearby is not released", "[zero3]") {
  // After forward the next modules are root, c (15), b (30), a.
  const auto [distance, module, kept] = GENERATE(table<std::int64_t, ModuleId, bool>(
      {{0, c, false}, {1, c, true}, {20, c, true}, {15, b, false}, {16, b, true}, {45, a, false}}));
  Traced t;
  CHECK(t.run({root, a, b, c, root, c, b, a}));
  t.trace.reset();
  CHECK(t.run({root, a, b, c}));
  CHECK(t.trace.releasable(module, Numel{distance}, none).empty() == kept);
}

TEST_CASE("persistent parameters are released only until the order is known", "[zero3]") {
  const auto persistent = [](ParameterId) { return true; };
  Traced t;
  CHECK(t.run({root, a}));
  CHECK(t.trace.releasable(a, Numel{0}, persistent) == std::vector{aw});
  t.trace.reset();
  CHECK(t.run({root, a}));
  CHECK(t.trace.releasable(a, Numel{0}, persistent).empty());
}

TEST_CASE("a module that needs more than was recorded is a tracing error", "[zero3]") {
  Traced t;
  CHECK(t.run({root, a, b}));
  t.trace.reset();
  t.take(root);
  t.trace.advance();
  t.needs[1] = {aw, cw};
  REQUIRE(t.trace.visit(a));
  const Status status = t.trace.take(a);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message().find("tracing error at step 1: module 'a' needs a.w, c.w") == 0);
}

}  // namespace
}  // namespace tessera
