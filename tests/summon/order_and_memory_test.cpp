// SPDX-License-Identifier: Apache-2.0
// Which operations a summon issues, in which order, and what memory it holds when.
#include <catch2/catch.hpp>

#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/summon/scenes.h"

namespace tessera {
namespace {

using test::require_ok;

struct Scene {
  Model model = test::g3();
  Recording recording;
  std::unique_ptr<Runtime> runtime = make_recording_runtime(4, recording);
  std::unique_ptr<Engine> engine;

  explicit Scene(const test::SummonScheme& scheme) {
    auto made = scheme.make(*runtime, model, {"L1", "L2", "L3"});
    require_ok(made.status());
    engine = std::move(*made);
  }
  std::unique_ptr<FullParams> summon(const SummonOptions& options = {}) const {
    auto full = summon_full_params(*engine, options);
    require_ok(full.status());
    return std::move(*full);
  }

  int summoned(OpKind kind) const {
    int count = 0;
    for (const Record& r : recording.records) {
      const bool mine = r.kind == Record::Kind::op && r.cause.reason == Reason::summon;
      count += mine && kind_of(r.op) == kind ? 1 : 0;
    }
    return count;
  }
  int host_waits() const {
    int count = 0;
    for (const Record& r : recording.records) count += r.kind == Record::Kind::host_wait ? 1 : 0;
    return count;
  }

  struct Held {
    Bytes now{}, peak{};
    bool operator==(const Held&) const = default;
  };
  /// What `rank` holds on the device, or in host memory; `peak` counts from record `from` on.
  Held held(Rank rank, bool host = false, std::size_t from = 0) const {
    Held held;
    for (std::size_t i = 0; i < recording.records.size(); ++i) {
      const Record& r = recording.records[i];
      const bool allocates = r.kind == Record::Kind::allocate;
      if (allocates || (r.kind == Record::Kind::release && r.where.contains(rank))) {
        const auto& buffer = recording.buffers[r.buffer.index()];
        const bool counts = (buffer.memory_class == MemoryClass::pinned_host) == host;
        if (counts && r.where.contains(rank)) held.now += allocates ? buffer.bytes : -buffer.bytes;
      }
      if (i >= from) held.peak = std::max(held.peak, held.now);
    }
    return held;
  }
  /// Bytes of the gathered units: the shards of four ranks, padding included.
  std::vector<Bytes> unit_bytes(Index group) const {
    std::vector<Bytes> out;
    for (const UnitInfo& unit : engine->units()) {
      out.push_back(bytes_of(unit.shard * group, DType::float32));
    }
    return out;
  }
};

Bytes sum(const std::vector<Bytes>& all) {
  Bytes total{};
  for (const Bytes bytes : all) total += bytes;
  return total;
}

struct Expected {
  test::SummonScheme scheme;
  Index group;  // ranks that share one copy
};

std::vector<Expected> sharding_schemes() {
  using enum ShardingStrategy;
  return {{test::summon_schemes()[0], 4},
          {test::flat_scheme("full_shard", {}), 4},
          {test::flat_scheme("mixed precision", {.param_dtype = DType::bfloat16}), 4},
          {test::flat_scheme("no_shard", {.strategy = no_shard}), 1},
          {test::flat_scheme("hybrid_shard", {.strategy = hybrid_shard}), 2},
          {test::flat_scheme("offload", {.offload_params = true}), 4},
          {test::dim0_scheme("hybrid fully_shard", {}, /*hybrid=*/true), 2},
          {test::dim0_scheme("fully_shard, offload", {.offload_params = true}), 4}};
}

TEST_CASE("a unit is one all_gather, with gradients two", "[summon][order]") {
  for (const auto& [scheme, group] : sharding_schemes()) {
    INFO(scheme.name);
    Scene scene(scheme);
    require_ok(scene.summon()->close());
    const int units = group == 1 ? 0 : 4;
    CHECK(scene.summoned(OpKind::all_gather) == units);
    test::Interrupted engine(*scene.engine);
    engine.before_step = [&] { scene.summon({.with_grads = true}); };
    require_ok(run_training_step(engine, scene.model, {}));
    CHECK(scene.summoned(OpKind::all_gather) == 3 * units);
    CHECK(scene.summoned(OpKind::broadcast) == 0);
  }
}

TEST_CASE("what is replicated is summoned without communication", "[summon][order]") {
  Scene scene(test::summon_schemes()[1]);
  const auto before = scene.held(1);
  require_ok(run_training_step(*scene.engine, scene.model, {}));
  auto full = scene.summon();
  require_ok(full->commit());
  full.reset();
  CHECK(scene.summoned(OpKind::all_gather) + scene.summoned(OpKind::broadcast) == 0);
  CHECK(scene.summoned(OpKind::copy) == 2);
  full = scene.summon({.rank0_only = true});
  require_ok(full->commit());
  CHECK(scene.summoned(OpKind::broadcast) == 1);
  CHECK(before.now > Bytes{0});
}

TEST_CASE("the host waits, then everything runs on the compute stream", "[summon][order]") {
  for (const auto& [scheme, group] : sharding_schemes()) {
    INFO(scheme.name);
    Scene scene(scheme);
    require_ok(run_training_step(*scene.engine, scene.model, {}));
    const std::size_t first = scene.recording.records.size();
    require_ok(scene.summon({.rank0_only = true})->commit());
    bool waited = false;
    for (std::size_t i = first; i < scene.recording.records.size(); ++i) {
      const Record& r = scene.recording.records[i];
      waited |= r.kind == Record::Kind::host_wait;
      if (r.kind != Record::Kind::op) continue;
      CHECK(scene.recording.streams[r.stream.index()] == "default");
      CHECK((waited || kind_of(r.op) == OpKind::wait));
    }
    CHECK(waited);
    require_ok(run_training_step(*scene.engine, scene.model, {}));
  }
}

TEST_CASE("units are gathered from the root on and freed in reverse", "[summon][order]") {
  Scene scene(sharding_schemes()[1].scheme);
  scene.summon();
  std::vector<std::string> gathered, freed;
  for (const Record& r : scene.recording.records) {
    const bool buffer = r.kind == Record::Kind::release;
    if (buffer) freed.push_back(scene.recording.buffers[r.buffer.index()].unit);
    if (r.kind == Record::Kind::op && kind_of(r.op) == OpKind::all_gather)
      gathered.emplace_back(r.cause.unit);
  }
  CHECK(gathered == std::vector<std::string>{"root", "L1", "L2", "L3"});
  CHECK(freed == std::vector<std::string>{"L3", "L2", "L1", "root"});
}

TEST_CASE("memory: all units at once, one unit, and as before", "[summon][memory]") {
  for (const auto& [scheme, group] : sharding_schemes()) {
    INFO(scheme.name);
    Scene scene(scheme);
    require_ok(run_training_step(*scene.engine, scene.model, {}));
    const auto before = scene.held(3).now;
    const auto units = scene.unit_bytes(group);

    std::size_t from = scene.recording.records.size();
    auto full = scene.summon();
    CHECK(scene.held(3).now - before == sum(units));
    require_ok(full->commit());
    require_ok(full->close());
    CHECK(scene.held(3, false, from).peak - before == sum(units));
    CHECK(scene.held(3).now == before);

    from = scene.recording.records.size();
    require_ok(for_each_unit(*scene.engine, {},
                             [](const std::string&, FullParams& one) { return one.commit(); }));
    CHECK(scene.held(3, false, from).peak - before ==
          *std::max_element(units.begin(), units.end()));
    CHECK(scene.held(3).now == before);
  }
}

TEST_CASE("memory: rank0_only and offloading", "[summon][memory]") {
  for (const auto& [scheme, group] : sharding_schemes()) {
    INFO(scheme.name);
    Scene scene(scheme);
    const auto units = scene.unit_bytes(group);
    const Bytes device = scene.held(0).now;
    const Bytes host = scene.held(0, true).now;
    const Bytes largest = *std::max_element(units.begin(), units.end());

    auto full = scene.summon({.rank0_only = true});
    CHECK(scene.held(0).now - device == sum(units));
    CHECK(scene.held(1).now == device);
    CHECK(scene.held(1).peak - device == largest);
    full.reset();

    const std::size_t from = scene.recording.records.size();
    full = scene.summon({.rank0_only = true, .offload_to_cpu = true});
    CHECK(scene.held(0).now == device);
    CHECK(scene.held(0, true).now - host == sum(units));
    CHECK(scene.held(1, true).now == host);
    require_ok(full->commit());  // through a buffer of one unit
    CHECK(scene.held(0, false, from).peak - device == largest);
    require_ok(full->close());
    CHECK(scene.held(0) == Scene::Held{device, scene.held(0).peak});
    CHECK(scene.held(0, true).now == host);
  }
}

TEST_CASE("units that were unsharded need no all_gather and stay so", "[summon][memory]") {
  using enum ShardingStrategy;
  for (const bool commits : {false, true}) {
    Scene scene(test::flat_scheme("shard_grad_op", {.strategy = shard_grad_op}));
    test::Interrupted engine(*scene.engine);
    int forwards = 0;
    engine.before_forward = [&] {
      if (++forwards != 2) return;  // between two micro-batches: parameters stay gathered
      const auto before = scene.held(2).now;
      auto full = scene.summon();
      CHECK(scene.summoned(OpKind::all_gather) == 0);
      if (commits) require_ok(full->commit());
      CHECK(scene.summoned(OpKind::all_gather) == (commits ? 4 : 0));
      require_ok(full->close());
      CHECK(scene.held(2).now == before);
    };
    require_ok(run_training_step(engine, scene.model,
                                 {.accumulation = 2, .sync_every_micro_batch = false}));
    int in_second_forward = 0;
    for (const Record& r : scene.recording.records) {
      in_second_forward += r.kind == Record::Kind::op && kind_of(r.op) == OpKind::all_gather &&
                                   r.cause.phase == Phase::forward && r.cause.micro_batch == 1 &&
                                   r.cause.reason != Reason::summon
                               ? 1
                               : 0;
    }
    CHECK(in_second_forward == 0);
  }
}

TEST_CASE("fully_shard: an early unshard, and units kept after backward", "[summon][memory]") {
  const Model model = test::g3();
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  auto made = fully_shard(*runtime, model, {.units = {"L1", "L2", "L3"}});
  require_ok(made.status());
  FullyShard& engine = **made;
  const ModuleId unit = model.find_module("L2");
  auto all_gathers = [&] {
    return std::count_if(recording.records.begin(), recording.records.end(), [](const Record& r) {
      return r.kind == Record::Kind::op && kind_of(r.op) == OpKind::all_gather;
    });
  };
  require_ok(engine.unshard(unit));
  const auto before = all_gathers();
  auto full = summon_full_params(engine, {.root = "L2"});
  require_ok(full.status());
  CHECK(all_gathers() == before);  // it was under way
  CHECK(engine.unshard(unit).code() == Code::invalid_argument);
  CHECK(engine.reshard(unit).code() == Code::invalid_argument);
  require_ok((*full)->commit());
  CHECK(all_gathers() == before + 1);  // what was under way is outdated
  require_ok((*full)->close());

  engine.set_reshard_after_backward(false);
  test::Interrupted interrupted(engine);
  interrupted.before_step = [&] {
    const auto gathered = all_gathers();
    require_ok(summon_full_params(engine).status());
    CHECK(all_gathers() == gathered);
  };
  require_ok(run_training_step(interrupted, model, {}));
  require_ok(run_training_step(engine, model, {}));
}

TEST_CASE("the limiter's queue is shared with training", "[summon][order]") {
  auto waits = [](bool limit) {
    Scene scene(test::flat_scheme("full_shard", {.limit_all_gathers = limit}));
    scene.summon();
    const int once = scene.host_waits();
    scene.summon();
    return std::pair(once, scene.host_waits() - once);
  };
  CHECK(waits(false) == std::pair(1, 1));
  // Four units were freed: the next summon takes turns until one event is left.
  CHECK(waits(true) == std::pair(1, 1 + 3));
}

}  // namespace
}  // namespace tessera
