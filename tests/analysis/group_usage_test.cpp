// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/group_usage.h"

#include <catch2/catch.hpp>

namespace tessera::analysis {
namespace {

struct Totals {
  std::int64_t count = 0, bytes = 0;
  Time duration = 0, wait = 0, transfer = 0, exposed = 0;
  bool operator==(const Totals&) const = default;
};

Totals totals(const std::vector<GroupUsage>& rows) {
  Totals t;
  for (const GroupUsage& row : rows) {
    t.count += row.count;
    t.bytes += row.bytes.value;
    t.duration += row.duration;
    t.wait += row.wait;
    t.transfer += row.transfer;
    t.exposed += row.exposed;
  }
  return t;
}

TEST_CASE("groups and units come to the same, and all operations to every span",
          "[analysis][usage]") {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera";
  const auto trace = Trace::open(path);
  REQUIRE(trace.ok());
  const auto lanes = trace->reader().lanes(5, 0, trace->info().end + 1);
  REQUIRE(lanes.ok());
  std::vector<const storage::Lane*> all;
  for (const storage::Lane& lane : *lanes) all.push_back(&lane);
  const auto compute = compute_lanes(*trace, *lanes);
  for (const auto& range :
       {std::pair<Time, Time>{0, trace->info().end + 1}, {10'000'000, 30'000'000}, {5, 5}}) {
    const Time from = range.first, to = range.second;
    INFO(from << " to " << to);
    const auto by = [&](UsageBy what) { return group_usage(*trace, all, compute, from, to, what); };
    CHECK(totals(by(UsageBy::unit)) == totals(by(UsageBy::group)));
    std::int64_t spans = 0;
    Time duration = 0;
    for (const storage::Lane& lane : *lanes) {
      for (std::size_t i = 0; i < lane.begin.size(); ++i) {
        if (lane.begin[i] < from || lane.begin[i] >= to) continue;
        ++spans;
        duration += lane.end[i] - lane.begin[i];
      }
    }
    const std::vector<GroupUsage> operations = by(UsageBy::operation);
    CHECK(totals(operations).count == spans);
    CHECK(totals(operations).duration == duration);
    const auto longer = [](const GroupUsage& a, const GroupUsage& b) {
      return a.duration > b.duration;
    };
    CHECK(std::is_sorted(operations.begin(), operations.end(), longer));
    for (const GroupUsage& row : operations) CHECK_FALSE(row.name.empty());
  }
}

// Sums over the steps of a trace for rank 0: by collective, and as the run counted them.
struct Held {
  Time blocking = 0, exposed = 0, counted = 0;
};

Held held_by_collectives(const std::string& name) {
  const auto trace = Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/" + name);
  REQUIRE(trace.ok());
  const auto lanes = trace->reader().lanes(0, 0, trace->info().end + 1);
  REQUIRE(lanes.ok());
  std::vector<const storage::Lane*> all;
  for (const storage::Lane& lane : *lanes) all.push_back(&lane);
  const auto compute = compute_lanes(*trace, *lanes);
  Held held;
  for (const auto by : {UsageBy::group, UsageBy::unit}) {
    held.blocking = held.exposed = 0;
    for (const GroupUsage& row : group_usage(*trace, all, compute, 0, trace->info().end + 1, by)) {
      CHECK(row.blocking <= row.exposed);
      held.blocking += row.blocking;
      held.exposed += row.exposed;
    }
  }
  for (std::int32_t step = 0; step < trace->step_count(); ++step) {
    held.counted += trace->steps().blocking[static_cast<std::size_t>(step * trace->rank_count())];
  }
  return held;
}

TEST_CASE("what compute stood still for is a part of what was exposed", "[analysis][usage]") {
  // One stream waits for all_reduce and goes on: each pause is a collective's as a whole.
  const Held all = held_by_collectives("scheme-replicate.tessera");
  CHECK(all.blocking == Approx(static_cast<double>(all.counted)).epsilon(0.03));
  const Held gathers = held_by_collectives("scheme-fully_shard.tessera");
  CHECK(gathers.blocking == Approx(static_cast<double>(gathers.counted)).epsilon(0.1));
  CHECK(gathers.blocking <= gathers.exposed);
  // Compute waits for copies that waited for collectives.
  const Held partitions = held_by_collectives("scheme-zero3.tessera");
  CHECK(partitions.blocking > partitions.exposed / 10);
  // An import does not say who waited for whom.
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/traces/torch-fsdp2.tessera";
  const auto trace = Trace::open(path);
  REQUIRE(trace.ok());
  const auto lanes = trace->reader().lanes(0, 0, trace->info().end + 1);
  REQUIRE(lanes.ok());
  std::vector<const storage::Lane*> spans;
  for (const storage::Lane& lane : *lanes) spans.push_back(&lane);
  const auto threads = compute_lanes(*trace, *lanes);
  REQUIRE_FALSE(threads.empty());
  for (const GroupUsage& row : group_usage(*trace, spans, threads, 0, trace->info().end + 1)) {
    CHECK(row.blocking == -1);
  }
}

double link_of(const std::string& name) {
  const auto trace = Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/" + name);
  REQUIRE(trace.ok());
  const auto lanes = trace->reader().lanes(0, 0, trace->info().end + 1);
  REQUIRE(lanes.ok());
  std::vector<const storage::Lane*> all;
  for (const storage::Lane& lane : *lanes) all.push_back(&lane);
  const auto rows = group_usage(*trace, all, {}, 0, trace->info().end + 1);
  REQUIRE_FALSE(rows.empty());
  for (const TransferPoint& point : transfer_points(*trace, all, 0, trace->info().end + 1, 1000)) {
    CHECK(point.link_bandwidth == rows.front().link_bandwidth);
    // No link carries more than it can.
    if (point.link_bandwidth > 0) CHECK(point.bus_bandwidth <= point.link_bandwidth);
  }
  return rows.front().link_bandwidth;
}

TEST_CASE("what links carry is said of simulated groups whose links are known",
          "[analysis][usage]") {
  CHECK(link_of("scheme-zero3.tessera") == 450e9);     // within one node
  CHECK(link_of("straggler-16384.tessera") == 400e9);  // eight links of 50 GB/s out of each
  CHECK(link_of("torch-fsdp2.tessera") == 0);          // an import has no cluster
}

}  // namespace
}  // namespace tessera::analysis
