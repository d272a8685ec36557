// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/runtime/memory_ledger.h"
#include "engine/tracing/clock_kernels.h"
#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tessera/training.h"
#include "tests/base/models.h"
#include "tests/random.h"
#include "tests/sim/heap_oracle.h"
#include "tests/sim/test_costs.h"
#include "tests/sim/vector_sink.h"

namespace tessera {
namespace {

using sim::LockstepOptions;
using sim::LockstepRuntime;

const test::TestCosts costs;

struct Scenario {
  Rank ranks = 4;
  double jitter = 0;
  std::uint64_t seed = 0;
  std::vector<sim::SlowRank> slow_ranks;
  std::vector<sim::SlowLink> slow_links;
  int steps = 2;
  TrainingOptions training;
  FullyShardOptions fully_shard{.units = {"L1", "L2", "L3"}};
  Bytes memory{};
  sim::StackProfile::Allocator allocator = sim::StackProfile::Allocator::events;
};

std::vector<Rank> all_ranks(Rank n) {
  std::vector<Rank> ranks;
  for (Rank r = 0; r < n; ++r) ranks.push_back(r);
  return ranks;
}

std::unique_ptr<LockstepRuntime> simulate(const Scenario& s, TraceSink* sink) {
  static const Model model = test::g3();
  auto runtime = LockstepRuntime::create({.world_size = s.ranks,
                                          .ranks_per_node = 2,
                                          .cost = &costs,
                                          .seed = s.seed,
                                          .jitter = s.jitter,
                                          .slow_ranks = s.slow_ranks,
                                          .slow_links = s.slow_links,
                                          .memory_per_rank = s.memory,
                                          .allocator = s.allocator,
                                          .sink = sink,
                                          .recorded_ranks = all_ranks(s.ranks)});
  REQUIRE(runtime.ok());
  auto engine = fully_shard(**runtime, model, s.fully_shard);
  REQUIRE(engine.ok());
  for (int step = 0; step < s.steps; ++step) {
    const Status status = run_training_step(**engine, model, s.training);
    INFO(status.message());
    REQUIRE(status.ok());
  }
  const Status status = (*runtime)->finish();
  INFO(status.message());
  REQUIRE(status.ok());
  return std::move(*runtime);
}

Scenario random_scenario(std::uint64_t seed) {
  test::Random random(seed);
  Scenario s;
  s.ranks = static_cast<Rank>(1 + random.below(9));
  s.seed = seed;
  s.jitter = static_cast<double>(random.below(50)) / 100;
  if (random.chance(50)) s.slow_ranks = {{static_cast<Rank>(random.below(s.ranks)), 1.5}};
  s.training.accumulation = static_cast<std::int32_t>(1 + random.below(3));
  s.training.sync_every_micro_batch = random.chance(50);
  s.fully_shard.reshard_after_forward = static_cast<ReshardAfterForward>(random.below(3));
  if (random.chance(50)) s.fully_shard.param_dtype = DType::bfloat16;
  if (random.chance(30)) s.fully_shard.reduce_dtype = DType::bfloat16;
  return s;
}

Time jittered(const Scenario& s, std::int32_t event, Rank rank, Time nominal) {
  const auto seed_key = hash32(static_cast<std::uint32_t>(s.seed) ^ hash32(0x9E3779B9U));
  const Time amplitude = std::llround(s.jitter * static_cast<double>(nominal));
  const std::uint64_t u = hash32(hash32(static_cast<std::uint32_t>(rank) ^ seed_key) ^
                                 hash32(static_cast<std::uint32_t>(event) ^ seed_key));
  Time taken = nominal - amplitude +
               static_cast<Time>((static_cast<std::uint64_t>(2 * amplitude) * u) >> 32);
  for (const auto& slow : s.slow_ranks) {
    if (slow.rank == rank) taken += std::llround(static_cast<double>(taken) * (slow.factor - 1));
  }
  return taken;
}

TEST_CASE("a peak's reserved bytes are the step's highest, whenever that was", "[lockstep]") {
  MemoryLedger ledger;
  ledger.record(MemoryClass::activations, Bytes{100}, Bytes{100}, Bytes{128});
  ledger.record(MemoryClass::activations, Bytes{-100}, Bytes{0}, Bytes{128});
  ledger.record(MemoryClass::temporary, Bytes{90}, Bytes{90}, Bytes{256});
  const auto of = [](const MemoryLedger::Use& use, MemoryClass c) {
    return use.by_class[static_cast<std::size_t>(c)];
  };
  const MemoryLedger::Use peak = ledger.peak();
  CHECK(peak.allocated == Bytes{100});
  CHECK(peak.reserved == Bytes{256});
  CHECK(of(peak, MemoryClass::activations) == Bytes{100});
  CHECK(of(peak, MemoryClass::reserved_unused) == Bytes{156});
  ledger.restart_peak();
  CHECK(ledger.peak().allocated == Bytes{90});
  CHECK(of(ledger.peak(), MemoryClass::reserved_unused) == Bytes{166});
}

TEST_CASE("clocks equal those of an event queue, rank by rank, jitter included",
          "[sim][lockstep]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  const Scenario s = random_scenario(seed);
  test::VectorSink sink;
  simulate(s, &sink);

  const Model model = test::g3();
  Recording recording;
  auto recorder = make_recording_runtime(s.ranks, recording);
  auto engine = fully_shard(*recorder, model, s.fully_shard);
  REQUIRE(engine.ok());
  for (int step = 0; step < s.steps; ++step) {
    REQUIRE(run_training_step(**engine, model, s.training).ok());
  }
  const test::Program program = test::program_of(recording, costs);
  const auto oracle = test::run_heap(
      program, s.ranks,
      [&](std::int32_t event, Rank rank, Time nominal) {
        return jittered(s, event, rank, nominal);
      },
      true);
  REQUIRE(sink.span_rows.size() == oracle.ends.size());
  for (std::size_t k = 0; k < sink.span_rows.size(); ++k) {
    INFO("op " << sink.span_rows[k].op << " rank " << sink.span_rows[k].rank);
    REQUIRE(sink.span_rows[k].end == oracle.ends[k]);
  }
}

Time overlap(Time a0, Time a1, Time b0, Time b1) {
  return std::max<Time>(0, std::min(a1, b1) - std::max(a0, b0));
}

TEST_CASE("the accounts of every rank equal those measured on its spans", "[sim][accounts]") {
  const std::uint64_t seed = GENERATE(range(1, 40));
  INFO("seed=" << seed);
  const Scenario s = random_scenario(seed);
  test::VectorSink sink;
  simulate(s, &sink);
  for (Rank rank = 0; rank < s.ranks; ++rank) {
    std::vector<test::VectorSink::SpanRow> compute, collectives;
    Time wait = 0, transfer = 0;
    for (const auto& span : sink.span_rows) {
      if (span.rank != rank) continue;
      const StreamRole role = sink.streams[static_cast<std::size_t>(sink.ops.at(span.op).stream)];
      if (role == StreamRole::compute) compute.push_back(span);
      if (sink.ops.at(span.op).kind > OpKind::broadcast) continue;
      collectives.push_back(span);
      wait += span.ready - span.begin;
      transfer += span.end - span.ready;
    }
    Time busy = 0, exposed = 0, idle_before = 0;
    for (const auto& span : compute) {
      busy += span.end - span.begin;
      for (const auto& c : collectives) {
        exposed += overlap(c.begin, c.end, idle_before, span.begin);
      }
      idle_before = span.end;
    }
    const auto r = static_cast<std::size_t>(rank);
    Time sums[5] = {};
    for (const auto& step : sink.steps) {
      sums[0] += step.compute[r];
      sums[1] += step.exposed[r];
      sums[2] += step.wait[r];
      sums[3] += step.communication[r];
      sums[4] += step.end[r] - step.begin[r];
    }
    INFO("rank " << rank);
    CHECK(sums[0] == busy);
    CHECK(sums[1] == exposed);
    CHECK(sums[2] == wait);
    CHECK(sums[3] == transfer);
    CHECK(sums[4] == compute.back().end);
  }
}

TEST_CASE("memory classes sum to the allocator's counter at every event", "[sim][memory]") {
  const std::uint64_t seed = GENERATE(range(1, 20));
  INFO("seed=" << seed);
  const Scenario s = random_scenario(seed);
  test::VectorSink sink;
  simulate(s, &sink);
  std::map<Rank, std::array<Bytes, memory_class_count>> by_class;
  std::map<Rank, Time> last;
  std::map<Rank, Bytes> reserved;
  for (const MemorySample& sample : sink.samples) {
    auto& classes = by_class[sample.rank];
    classes[static_cast<std::size_t>(sample.memory_class)] += sample.delta;
    Bytes sum{};
    for (std::size_t c = 0; c < classes.size(); ++c) {
      CHECK(classes[c] >= Bytes{0});
      if (is_on_device(static_cast<MemoryClass>(c))) sum += classes[c];
    }
    CHECK(sum == sample.allocated);
    CHECK(sample.allocated <= sample.reserved);
    CHECK(sample.reserved >= reserved[sample.rank]);
    CHECK(sample.time >= last[sample.rank]);
    last[sample.rank] = sample.time;
    reserved[sample.rank] = sample.reserved;
  }
  for (const PeakMemory& peak : sink.peaks) {
    Bytes sum{};
    for (const Bytes bytes : peak.by_class) sum += bytes;
    CHECK(sum == peak.reserved);
  }
}

TEST_CASE("the allocator decides what is reserved, and nothing else", "[sim][memory]") {
  const std::uint64_t seed = GENERATE(range(1, 20));
  INFO("seed=" << seed);
  Scenario s = random_scenario(seed);
  test::VectorSink placed, counted;
  simulate(s, &placed);
  s.allocator = sim::StackProfile::Allocator::expandable;
  simulate(s, &counted);
  CHECK(placed.span_rows == counted.span_rows);
  REQUIRE(placed.peaks.size() == counted.peaks.size());
  for (std::size_t k = 0; k < placed.peaks.size(); ++k) {
    PeakMemory a = placed.peaks[k];
    PeakMemory b = counted.peaks[k];
    CHECK(a.allocated == b.allocated);
    CHECK(b.reserved.value % (2 << 20) == 0);  // pages
    const auto unused = static_cast<std::size_t>(MemoryClass::reserved_unused);
    a.by_class[unused] = b.by_class[unused] = {};
    CHECK(a.by_class == b.by_class);
  }
  s.allocator = sim::StackProfile::Allocator::planned;
  test::VectorSink planned;
  simulate(s, &planned);
  CHECK(planned.span_rows == placed.span_rows);
  REQUIRE(planned.peaks.size() == placed.peaks.size());
  for (std::size_t k = 0; k < planned.peaks.size(); ++k) {
    CHECK(planned.peaks[k].reserved == placed.peaks[k].allocated);
  }
}

TEST_CASE("the same seed gives the same run, another seed another", "[sim][determinism]") {
  Scenario s;
  s.jitter = 0.1;
  s.seed = 7;
  test::VectorSink first, second, other;
  simulate(s, &first);
  simulate(s, &second);
  s.seed = 8;
  simulate(s, &other);
  CHECK(first.span_rows == second.span_rows);
  CHECK_FALSE(first.span_rows == other.span_rows);
}

TEST_CASE("everybody waits for a slow rank", "[sim][lockstep]") {
  Scenario s;
  test::VectorSink even, slow;
  simulate(s, &even);
  s.slow_ranks = {{2, 2.0}};
  simulate(s, &slow);
  CHECK(slow.steps[1].end[0] > even.steps[1].end[0]);
  CHECK(slow.steps[1].wait[0] > 0);
  CHECK(slow.steps[1].wait[2] == 0);
  CHECK(even.steps[1].wait[0] == 0);
}

TEST_CASE("a slow link slows the collectives of its node alone, by its factor", "[sim][lockstep]") {
  for (const Index group : {2, 4}) {  // shards inside of nodes, and over both
    Scenario s;
    s.fully_shard.shard_group = group;
    test::VectorSink even, slow;
    simulate(s, &even);
    s.slow_links = {{1, 3.0}};
    simulate(s, &slow);
    const auto first_gather = [](const test::VectorSink& sink, Rank rank) {
      for (const auto& span : sink.span_rows) {
        const bool gather = sink.ops.at(span.op).kind == OpKind::all_gather;
        if (gather && span.rank == rank) return span.end - span.ready;
      }
      return Time{0};
    };
    CHECK(first_gather(even, 0) > 0);
    CHECK(first_gather(slow, 2) == 3 * first_gather(even, 2));
    CHECK(first_gather(slow, 0) == (group == 2 ? 1 : 3) * first_gather(even, 0));
  }
}

TEST_CASE("memory that does not fit is a result that names what holds it", "[sim][memory]") {
  Scenario s;
  s.memory = Bytes{1 << 20};  // less than one page
  test::VectorSink sink;
  const auto runtime = simulate(s, &sink);
  CHECK(runtime->out_of_memory().find("rank 0 is out of memory in step 0") == 0);
  REQUIRE(sink.diagnostics.size() == 1);
  CHECK(sink.diagnostics[0] == runtime->out_of_memory());
  REQUIRE(sink.shortages.size() == 1);
  const TraceMemoryShortage& shortage = sink.shortages[0];
  CHECK(shortage.capacity == s.memory);
  CHECK(shortage.request > shortage.largest_free);
  Bytes all{}, free{};
  for (const MemoryBlock& block : sink.blocks) {
    CHECK(block.address == all);
    all += block.bytes;
    if (block.buffer < 0) free += block.bytes;
  }
  CHECK(all == s.memory);
  CHECK(free == shortage.free);
  CHECK(runtime->peak_reserved() >= Bytes{2 << 20});
}

TEST_CASE("what is reserved falls where a caching allocator gives memory back", "[sim][memory]") {
  test::VectorSink sink;
  const auto runtime = LockstepRuntime::create({.world_size = 2,
                                                .ranks_per_node = 2,
                                                .cost = &costs,
                                                .memory_per_rank = Bytes{64 << 20},
                                                .allocator = sim::StackProfile::Allocator::pytorch,
                                                .sink = &sink,
                                                .recorded_ranks = all_ranks(2)});
  REQUIRE(runtime.ok());
  const StreamId stream = (*runtime)->create_stream("compute", StreamRole::compute).value();
  const RankSet& everyone = (*runtime)->local_ranks();
  const auto allocate = [&](int mib) {
    return (*runtime)
        ->allocate({.bytes = Bytes{mib << 20}, .stream = stream, .where = everyone, .name = "x"})
        .value();
  };
  const auto compute = [&] {
    REQUIRE((*runtime)->submit({.stream = stream, .where = everyone, .what = Compute{}}).ok());
  };
  const BufferId first = allocate(40), second = allocate(20);
  compute();
  REQUIRE((*runtime)->release(first, EventId{}, everyone).ok());
  REQUIRE((*runtime)->release(second, EventId{}, everyone).ok());
  allocate(42);  // neither of the cached blocks is large enough
  compute();
  REQUIRE((*runtime)->finish().ok());
  CHECK((*runtime)->cache_returns() == 1);
  std::vector<std::int64_t> reserved;
  for (const MemorySample& sample : sink.samples) {
    if (sample.rank == 1) reserved.push_back(sample.reserved.value >> 20);
  }
  CHECK(reserved == std::vector<std::int64_t>{40, 60, 60, 60, 42});
}

TEST_CASE("options that cannot be are refused with a reason", "[sim][lockstep]") {
  auto message = [](LockstepOptions options) {
    options.cost = &costs;
    return LockstepRuntime::create(options).status().message();
  };
  CHECK(message({.world_size = 0}) == "0 ranks on nodes of 8: both must be at least 1");
  CHECK(message({.world_size = 4, .jitter = 1.5}) == "jitter 1.5 must be at least 0 and below 1");
  CHECK(message({.world_size = 4, .slow_ranks = {{4, 2}}}) ==
        "slow rank 4 with factor 2: ranks are 0 to 3, factors positive");
  CHECK(message({.world_size = 4, .recorded_ranks = {1, 0}}) ==
        "recorded ranks must ascend and lie in 0 to 3");
}

}  // namespace
}  // namespace tessera
