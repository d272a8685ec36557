// SPDX-License-Identifier: Apache-2.0
// Parts of ZeRO-3 alone: what modules need, the account of gathered bytes, and who makes room.
#include <catch2/catch.hpp>

#include "engine/schemes/zero3/parameters/leaf_modules.h"
#include "engine/schemes/zero3/parameters/module_needs.h"
#include "engine/schemes/zero3/policy/live_room.h"
#include "tessera/recording.h"
#include "tests/schemes/zero3/net3.h"

namespace tessera::test {
namespace {

constexpr ModuleId root{0}, a{1}, b{2}, c{3};
constexpr ParameterId aw{0}, bw{1}, cw{2};  // 24, 30 and 15 elements

// Parameters of net3 on two ranks, and memory for their gathered copies.
struct Gathering {
  Model model = net3();
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(2, recording);
  Issuer issuer{*runtime, model, runtime->world()};
  CallOrder calls{model};
  UnitTable units{model};
  Operations operations{issuer, calls, units};
  Zero3Facts facts{.model = model,
                   .options = {},
                   .rules = rules_of(Zero3Policy::strict),
                   .ranks = 2,
                   .everyone = 2};
  OnDemandParameters parameters;
  GatheredMemory memory{operations, facts, parameters};
  ModuleNeeds::Lists needs = {{}, {aw}, {bw}, {cw}};
  KnownOrders orders{model};
  LiveRoom room{parameters, orders};

  Gathering() {
    facts.all_gather = *runtime->create_stream("all_gather", StreamRole::copy);
    for (ParameterId id : {aw, bw, cw}) {
      OnDemandParameter p{.id = id, .shard = {}, .numel = model.parameter(id).numel()};
      p.partition = Numel{(p.numel.value + 1) / 2};
      parameters.add(std::move(p));
    }
    orders.begin(true, needs);
  }
  void gather(ParameterId id) {
    REQUIRE(memory.allocate(parameters[id], facts.all_gather, {}).ok());
    parameters[id].copy.take();
  }
};

TEST_CASE("gathered bytes count padding, and a shared gather twice until it is split", "[zero3]") {
  Gathering g;
  CHECK(g.memory.of(cw) == Bytes{64});  // 15 elements, cut in two
  const ParameterId both[] = {aw, bw};
  CHECK(g.memory.most_of(both) == Bytes{2 * (96 + 120)});
  CHECK(g.memory.most_of({both, 1}) == Bytes{96});
  auto flat = g.memory.allocate_flat(1, Numel{54}, {});
  REQUIRE(flat.ok());
  CHECK(g.memory.live() == Bytes{216});
  CHECK(g.memory.promised() == Bytes{216});
  REQUIRE(g.memory.release_flat(*flat, Numel{54}, {}).ok());
  CHECK(g.memory.live() == Bytes{0});
  CHECK(g.memory.promised() == Bytes{0});
}

TEST_CASE("a copy is missing, flies, lands, and is missing again", "[zero3]") {
  Gathering g;
  GatheredCopy& copy = g.parameters[aw].copy;
  CHECK(copy.missing());
  copy.fly(nullptr);
  CHECK(copy.state() == GatheredCopy::State::in_flight);
  REQUIRE(g.memory.allocate(g.parameters[aw], g.facts.all_gather, {}).ok());
  copy.land();
  CHECK(copy.available());
  CHECK(g.memory.live() == Bytes{96});
  REQUIRE(g.memory.free(g.parameters[aw], {}).ok());
  CHECK(copy.missing());
  CHECK_FALSE(copy.buffer().valid());
  CHECK(g.memory.live() == Bytes{0});
}

TEST_CASE("room is made by what is used last, never by what is used before", "[zero3]") {
  Gathering g;
  for (ParameterId id : {aw, bw, cw}) g.gather(id);
  g.room.set_budget(g.memory.live());
  CHECK_FALSE(g.room.fits(Bytes{1}, g.memory));
  // Expected are root, a, b, c, and back again: a is used last of all.
  for (ModuleId m : {root, a, b, c}) REQUIRE(g.orders.follow({m, Visit::Kind::forward}));
  CHECK(&g.room.first_to_go(LiveRoom::whatever_it_costs) == &g.parameters[aw]);
  const std::int32_t next_of_b = g.orders.next_use(bw);
  CHECK(&g.room.first_to_go(next_of_b) == &g.parameters[aw]);
  CHECK(g.room.can_be_made(Bytes{96}, next_of_b, g.memory));
  CHECK_FALSE(g.room.can_be_made(Bytes{97}, next_of_b, g.memory));
  CHECK_FALSE(g.room.can_be_made(Bytes{1}, g.orders.next_use(aw), g.memory));
}

TEST_CASE("what is in use, or small, makes room for nothing that comes later", "[zero3]") {
  Gathering g;
  for (ParameterId id : {aw, bw, cw}) g.gather(id);
  g.room.set_budget(g.memory.live());
  g.parameters[aw].active.insert(a);
  g.parameters[bw].persistent = true;
  CHECK_FALSE(g.room.can_be_made(Bytes{65}, 0, g.memory));
  CHECK(g.room.can_be_made(Bytes{64}, 0, g.memory));
  CHECK(g.room.can_be_made(Bytes{64 + 120}, LiveRoom::whatever_it_costs, g.memory));
  CHECK(&g.room.first_to_go(LiveRoom::whatever_it_costs) == &g.parameters[cw]);
}

TEST_CASE("only needs that were added can be removed, and order stays", "[zero3]") {
  const Model model = net3();
  LeafModules leaves(model);
  REQUIRE(leaves.find({}).ok());
  ModuleNeeds needs;
  needs.find(model, leaves, {{}, {aw}, {bw}, {cw}}, true);
  needs.add(b, cw);
  needs.add(b, aw);
  needs.add(b, aw);
  CHECK(needs.of(b) == std::vector<ParameterId>{aw, bw, cw});
  CHECK(needs.external(b, aw));
  CHECK_FALSE(needs.external(b, bw));
  needs.remove(b, aw);
  CHECK(needs.of(b) == std::vector<ParameterId>{bw, cw});
  CHECK(needs.own(b) == std::vector<ParameterId>{bw});
}

TEST_CASE("a leaf module is left after as many backward visits as it had forward", "[zero3]") {
  const Model model = net3();
  LeafModules leaves(model);
  REQUIRE(leaves.find({"a"}).ok());
  CHECK(leaves.is_leaf(a));
  CHECK_FALSE(leaves.inside(a));
  leaves.begin_forward();
  leaves.enter(a);
  leaves.enter(a);
  CHECK_FALSE(leaves.leave(a));
  CHECK(leaves.leave(a));
  const ModuleNeeds::Lists shared = {{}, {aw, bw}, {bw}, {}};
  CHECK(leaves.used_only_in(a, {aw, bw}, shared) == std::vector<ParameterId>{aw});
}

}  // namespace
}  // namespace tessera::test
