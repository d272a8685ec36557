// SPDX-License-Identifier: Apache-2.0
// Planted faults are found and named first; runs without any have no findings.
#include "tessera/analysis/findings.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tessera/storage/trace_writer.h"
#include "tests/random.h"
#include "tests/temporary_folder.h"

namespace tessera::analysis {
namespace {

constexpr int planted_ranks = 16, units = 8;
constexpr Time unit_time = 1'000'000;
constexpr Time step_time = (units + 2) * unit_time;

/// Times and bytes of one rank in one step.
struct Row {
  Time compute = units * unit_time, transfer = 3'000'000, wait = 100'000, exposed = 0;
  std::int64_t allocated = 40LL << 30, reserved = 44LL << 30;
};

struct Planted {
  std::uint64_t seed = 1;
  std::function<void(Row&, int step, Rank rank)> row;  // changes it
  int late_unit = -1;                                  // is gathered only when it is needed
  int steps = 8;
  std::int32_t group = planted_ranks;  // of its only communicator
};

std::int64_t jittered(test::Random& random, std::int64_t value) {
  return value * (980 + random.below(41)) / 1000;
}

void write_step(const Planted& planted, int step, test::Random& random, TraceSink& sink) {
  RankStepColumns<storage::OwnedColumn> columns;
  for (Rank rank = 0; rank < planted_ranks; ++rank) {
    Row row;
    row.compute = jittered(random, row.compute);
    row.transfer = jittered(random, row.transfer);
    row.wait = jittered(random, row.wait);
    if (planted.row) planted.row(row, step, rank);
    columns.begin.push_back(step * step_time);
    columns.end.push_back((step + 1) * step_time);
    columns.compute.push_back(row.compute);
    columns.communication.push_back(row.transfer);
    columns.exposed.push_back(row.exposed);
    columns.blocking.push_back(0);
    columns.wait.push_back(row.wait);
    columns.peak_allocated.push_back(Bytes{row.allocated});
    columns.peak_reserved.push_back(Bytes{row.reserved});
  }
  sink.rank_steps({step, columns.begin, columns.end, columns.compute, columns.communication,
                   columns.exposed, columns.blocking, columns.wait, columns.peak_allocated,
                   columns.peak_reserved});
}

// Unit k is gathered while k - 1 is computed; a late one while nothing is.
void write_spans(const Planted& planted, int step, TraceSink& sink) {
  Time at = step * step_time + unit_time;
  const std::vector<Rank> only = {0};
  std::int32_t id = step * 2 * units;
  for (int k = 0; k < units; ++k) {
    const std::string unit = "layers." + std::to_string(k);
    const bool late = k == planted.late_unit;
    const std::vector<Time> from = {at - unit_time + (late ? unit_time : 0)};
    const std::vector<Time> to = {from[0] + unit_time / 2};
    sink.op({.id = id,
             .kind = OpKind::all_gather,
             .stream = 1,
             .communicator = 0,
             .step = step,
             .phase = Phase::forward,
             .reason = late ? Reason::needed : Reason::forward_prefetch,
             .unit = unit,
             .bytes = Bytes{1 << 20}});
    sink.spans({id++, only, from, from, to});
    if (late) at = to[0];
    const std::vector<Time> begin = {at}, end = {at + unit_time};
    sink.op({.id = id, .stream = 0, .step = step, .phase = Phase::forward, .unit = unit});
    sink.spans({id++, only, begin, begin, end});
    at = end[0];
  }
}

std::vector<Finding> found(const Planted& planted) {
  test::TemporaryFolder folder;
  const std::string path = folder.path() + "/planted.tessera";
  TraceRun run;
  run.ranks = planted_ranks;
  run.ranks_per_node = 8;
  run.scheme = "fully_shard";
  run.options = "{}";
  run.memory_per_rank = Bytes{80LL << 30};
  run.recorded_ranks = {0};
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  sink.begin(run);
  sink.stream({0, "compute", StreamRole::compute});
  sink.stream({1, "gather", StreamRole::communication});
  sink.communicator({0, "groups", planted.group, planted_ranks / planted.group});
  test::Random random(planted.seed);
  for (int step = 0; step < planted.steps; ++step) {
    write_spans(planted, step, sink);
    write_step(planted, step, random, sink);
  }
  const Status finished = sink.finish();
  INFO(finished.message());
  REQUIRE(finished.ok());
  auto trace = Trace::open(path);
  REQUIRE(trace.ok());
  auto findings = findings_of(*trace);
  INFO(findings.status().message());
  REQUIRE(findings.ok());
  for (const Finding& finding : *findings) {
    CHECK_FALSE(finding.title.empty());
    CHECK_FALSE(finding.evidence.empty());
    CHECK_FALSE(finding.advice.empty());
  }
  return std::move(findings).value();
}

TEST_CASE("ten runs of like ranks have no findings", "[analysis][findings]") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    INFO("seed=" << seed);
    CHECK(found({.seed = seed}).empty());
  }
}

TEST_CASE("a slow rank is named first", "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int, Rank rank) {
    if (rank == 5) row.compute = row.compute * 115 / 100;
  }});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::slow_rank);
  CHECK(findings[0].rank == 5);
  CHECK(findings[0].title.find("Rank 5 computes 1") == 0);
}

TEST_CASE("a slow rank is named first where next to nothing is computed, then that it is so",
          "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int, Rank rank) {
    row.compute = row.compute / 100 * (rank == 5 ? 115 : 100) / 100;
    row.exposed = step_time - row.compute;
  }});
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].kind == FindingKind::slow_rank);
  CHECK(findings[0].rank == 5);
  CHECK(findings[0].cost < 0.005);
  CHECK(findings[1].kind == FindingKind::exposed);
  CHECK(findings[1].title == "Collectives alone take 99.2 % of the step");
}

TEST_CASE("a rank that is slow in one step that computes next to nothing is none",
          "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int step, Rank rank) {
    row.compute = row.compute / 100 * (rank == 5 && step == 4 ? 140 : 100) / 100;
  }});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].kind == FindingKind::idle);
}

TEST_CASE("a step that neither computes nor communicates for most of its time says so",
          "[analysis][findings]") {
  const auto findings_in = [](const std::string& name) {
    const auto trace = Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/" + name);
    REQUIRE(trace.ok());
    const auto findings = findings_of(*trace);
    REQUIRE(findings.ok());
    return *findings;
  };
  const auto offloads = findings_in("offload-nvme.tessera");
  REQUIRE(offloads.size() == 1);
  CHECK(offloads[0].kind == FindingKind::idle);
  CHECK(offloads[0].title.find("The host, copies and files take 8") == 0);
  CHECK(offloads[0].advice.find("--offload-optimizer") != std::string::npos);
  for (const char* name : {"real-cpu", "scheme-zero3", "scheme-fully_shard"}) {
    CHECK(findings_in(std::string(name) + ".tessera").empty());
  }
}

TEST_CASE("the slow rank of 16,384 is named first", "[analysis][findings]") {
  const auto trace = Trace::open(TESSERA_SOURCE_DIR "/traces/straggler-16384.tessera");
  REQUIRE(trace.ok());
  const auto findings = findings_of(*trace);
  REQUIRE(findings.ok());
  REQUIRE(findings->size() == 2);
  CHECK((*findings)[0].title == "Rank 5120 computes 17.0 % longer than usual");
  CHECK((*findings)[1].kind == FindingKind::exposed);
}

TEST_CASE("a slow link is named first", "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int, Rank rank) {
    if (rank >= 8 && rank < 10) row.transfer = row.transfer * 2;
  }});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::slow_link);
  CHECK(findings[0].rank == 8);
  CHECK(findings[0].title.find("Ranks 8 to 9") == 0);
}

TEST_CASE("a slow link of one of two nodes is named, and not where groups lie differently",
          "[analysis][findings]") {
  const auto slow = [](Row& row, int, Rank rank) {
    if (rank >= 8) row.transfer = row.transfer * 3 / 2;
  };
  const auto findings = found({.row = slow, .group = 8});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::slow_link);
  CHECK(findings[0].rank == 8);
  CHECK(findings[0].title.find("Ranks 8 to 15 communicate ") == 0);
  CHECK(findings[0].title.find("longer than the others") != std::string::npos);
  CHECK(found({.row = slow, .group = 5}).empty());  // some of 5 are on both nodes
}

TEST_CASE("a node that computes longer is named", "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int, Rank rank) {
    if (rank < 8) row.compute = row.compute * 5 / 4;
  }});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::slow_rank);
  CHECK(findings[0].title.find("Ranks 0 to 7 compute 2") == 0);
}

TEST_CASE("a unit that is gathered too late is named first, with an op to look at",
          "[analysis][findings]") {
  const auto findings = found({.late_unit = 3});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::late_gather);
  CHECK(findings[0].title.find("layers.3 is gathered 500 µs too late in forward") == 0);
  CHECK(findings[0].op >= 0);
  CHECK(findings[0].time);
}

TEST_CASE("an owner of more than its part is named first", "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int, Rank rank) {
    if (rank == 11) row.allocated = row.allocated * 108 / 100;
  }});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::unbalanced_memory);
  CHECK(findings[0].rank == 11);
}

TEST_CASE("memory that grows from step to step is named first", "[analysis][findings]") {
  const auto findings =
      found({.row = [](Row& row, int step, Rank) { row.allocated += step * (256LL << 20); }});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::memory_growth);
  CHECK(findings[0].title == "Memory grows by 256.0 MiB every step");
}

TEST_CASE("memory that grows on some ranks, and not in each step, is named with them",
          "[analysis][findings]") {
  const auto findings = found({.row =
                                   [](Row& row, int step, Rank rank) {
                                     const bool leaks = rank == 3 || rank == 4;
                                     if (leaks) row.allocated += step / 2 * (256LL << 20);
                                     if (rank == 1) row.allocated += 8LL << 30;
                                   },
                               .steps = 20});
  const auto growth = std::find_if(findings.begin(), findings.end(), [](const Finding& f) {
    return f.kind == FindingKind::memory_growth;
  });
  REQUIRE(growth != findings.end());
  CHECK(growth->rank == 3);
  CHECK(growth->title.find("Memory of ranks 3 to 4 grows by 1") == 0);
}

TEST_CASE("a leak that begins at any step is named", "[analysis][findings]") {
  struct Leak {
    int steps, from, every;
    std::int64_t noise;  // bytes, below what a step adds
  };
  constexpr std::int64_t each = 512LL << 20;
  for (const Leak& leak : {Leak{12, 6, 1, 0}, Leak{16, 8, 1, 0}, Leak{16, 8, 1, each / 2},
                           Leak{16, 11, 1, 0}, Leak{24, 8, 2, each / 2}, Leak{24, 12, 2, 0},
                           Leak{40, 20, 3, each / 2}, Leak{40, 28, 1, each / 2}}) {
    INFO(leak.steps << " steps, from " << leak.from << ", every " << leak.every);
    test::Random sizes(7);
    const auto findings = found({.row =
                                     [&](Row& row, int step, Rank) {
                                       const int leaked = std::max(step - leak.from, 0);
                                       row.allocated += leaked / leak.every * leak.every * each;
                                       row.allocated += sizes.below(leak.noise + 1);
                                     },
                                 .steps = leak.steps});
    REQUIRE_FALSE(findings.empty());
    CHECK(findings[0].kind == FindingKind::memory_growth);
    CHECK(findings[0].rank == -1);
  }
}

TEST_CASE("a leak of the last half says since when", "[analysis][findings]") {
  const auto findings =
      found({.row = [](Row& row, int step,
                       Rank) { row.allocated += std::max(step - 8, 0) * (512LL << 20); },
             .steps = 17});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].title == "Memory grows by 512.0 MiB every step since step 9");
}

TEST_CASE("memory that rises once or twice and stays is no leak", "[analysis][findings]") {
  for (const int steps : {9, 12, 16, 24, 40}) {
    for (const int rises : {1, 2}) {
      INFO(rises << " of " << steps);
      test::Random sizes(static_cast<std::uint64_t>(steps));
      CHECK(found({.row =
                       [&](Row& row, int step, Rank) {
                         row.allocated += step * (rises + 1) / steps * (4LL << 30);
                         row.allocated += sizes.below(1LL << 30);
                       },
                   .steps = steps})
                .empty());
    }
  }
}

TEST_CASE("steps of different sizes, and what the first steps keep, are no leak",
          "[analysis][findings]") {
  for (const std::uint64_t seed : {1, 2, 3, 4, 5, 6, 7, 8}) {
    test::Random sizes(seed);
    CHECK(found({.row =
                     [&](Row& row, int step, Rank) {
                       row.allocated += sizes.below(2LL << 30);
                       if (step < 3) row.allocated -= 4LL << 30;
                     },
                 .steps = 24})
              .empty());
  }
}

TEST_CASE("memory that is reserved and cannot be used is named first", "[analysis][findings]") {
  const auto findings = found({.row = [](Row& row, int, Rank) { row.reserved = 78LL << 30; }});
  REQUIRE_FALSE(findings.empty());
  CHECK(findings[0].kind == FindingKind::fragmentation);
  // Simulated on beyond what there is, the run has failed before.
  CHECK(found({.row = [](Row& row, int, Rank) { row.reserved = 178LL << 30; }}).empty());
}

}  // namespace
}  // namespace tessera::analysis
