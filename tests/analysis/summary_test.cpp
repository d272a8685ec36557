// SPDX-License-Identifier: Apache-2.0
// A large trace, whose steps are summed up when it is written and read as they are asked for,
// says what the same trace says with all of its steps in memory.
#include <sqlite3.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tessera/analysis/findings.h"
#include "tessera/analysis/metrics.h"
#include "tessera/analysis/run.h"
#include "tessera/storage/trace_writer.h"
#include "tests/random.h"

namespace tessera::analysis {
namespace {

constexpr std::int32_t many_ranks = 8200, some_steps = 65;  // too many rows to be held

struct StepColumns {
  std::vector<Time> begin, end, compute, communication, exposed, blocking, wait;
  std::vector<Bytes> allocated, reserved;
};

// Of every tenth rank nothing is known in some steps, of one step of none; rank 77 is slow.
void write_steps(TraceSink& sink) {
  test::Random random(11);
  std::vector<Time> now(many_ranks, 0);
  for (std::int32_t step = 0; step < some_steps; ++step) {
    StepColumns s;
    for (Rank rank = 0; rank < many_ranks; ++rank) {
      const bool known = step != 7 && (rank % 10 != 0 || step % 3 != 0);
      const Time slow = rank == 77 ? 300'000 : 0;
      const Time compute = known ? 900'000 + random.below(2000) + slow : 0;
      Time& at = now[static_cast<std::size_t>(rank)];
      s.begin.push_back(at);
      at += known ? 1'300'000 + random.below(1000) : 0;
      s.end.push_back(at);
      s.compute.push_back(compute);
      s.communication.push_back(known ? 200'000 + random.below(900) : 0);
      s.exposed.push_back(known ? 100'000 + random.below(900) : 0);
      s.blocking.push_back(known ? 90'000 + random.below(900) : 0);
      s.wait.push_back(known ? 50'000 + random.below(900) - slow / 10 : 0);
      // Further apart than 32 bits tell.
      s.allocated.emplace_back((rank == 5 ? std::int64_t{9} << 30 : std::int64_t{1} << 20) + step);
      s.reserved.emplace_back((std::int64_t{10} << 30) + random.below(100));
    }
    sink.rank_steps({step, s.begin, s.end, s.compute, s.communication, s.exposed, s.blocking,
                     s.wait, s.allocated, s.reserved});
  }
}

void write_large(const std::string& path) {
  TraceRun run;
  run.name = "large";
  run.ranks = many_ranks;
  run.ranks_per_node = 8;
  run.memory_per_rank = Bytes{std::int64_t{10} << 30};
  run.options = "{}";
  auto writer = storage::TraceWriter::create(path);
  REQUIRE(writer.ok());
  (*writer)->begin(run);
  (*writer)->stream({0, "default", StreamRole::compute});
  write_steps(**writer);
  REQUIRE((*writer)->finish().ok());
}

Trace opened(const std::string& path, Trace::Check check) {
  auto trace = Trace::open(path, check);
  INFO(trace.status().message());
  REQUIRE(trace.ok());
  return std::move(trace).value();
}

void check_same(const Trace& a, const Trace& b) {
  const RunFigures one = figures_of(a), other = figures_of(b);
  CHECK(one.step_time_steady == other.step_time_steady);
  REQUIRE(one.steps.size() == other.steps.size());
  for (std::size_t k = 0; k < one.steps.size(); ++k) {
    const auto of = [](const StepTime& s) { return std::tie(s.min, s.median, s.max, s.slowest); };
    CHECK(of(one.steps[k]) == of(other.steps[k]));
    CHECK(a.step_range(static_cast<int>(k)) == b.step_range(static_cast<int>(k)));
  }
  REQUIRE(one.ranks.size() == other.ranks.size());
  const auto of = [](const RankMeans& r) {
    return std::tie(r.rank, r.step, r.compute, r.communication, r.exposed, r.blocking, r.wait,
                    r.wait_caused, r.peak_allocated, r.peak_reserved);
  };
  bool alike = true;
  for (std::size_t k = 0; k < one.ranks.size(); ++k)
    alike &= of(one.ranks[k]) == of(other.ranks[k]);
  CHECK(alike);
}

TEST_CASE("a large trace says the same whether its steps are held, summed up or read again",
          "[analysis][summary]") {
  const std::string path = std::string(TESSERA_BINARY_DIR) + "/analysis_summary_test.tessera";
  const std::string bare = path + ".bare";
  write_large(path);
  std::filesystem::copy_file(path, bare, std::filesystem::copy_options::overwrite_existing);
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(bare.c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, "DROP TABLE step_summary; DROP TABLE rank_summary", nullptr, nullptr,
                     nullptr) == SQLITE_OK);
  sqlite3_close(database);

  const Trace held = opened(path, Trace::Check::now);
  const Trace read = opened(path, Trace::Check::later);
  const Trace summed = opened(bare, Trace::Check::later);
  REQUIRE(held.holds_steps());
  REQUIRE_FALSE(read.holds_steps());
  CHECK(held.reader().step_summary()->has_value());
  CHECK_FALSE(summed.reader().step_summary()->has_value());
  check_same(held, read);
  check_same(held, summed);

  for (int m = 0; m < step_metric_count; ++m) {
    const auto metric = static_cast<Metric>(m);
    INFO(name_of(metric));
    const MetricTable rows = table_of(held.steps(), metric);
    const auto table = table_of(read, metric);
    REQUIRE(table.ok());
    CHECK(table->unit == rows.unit);
    bool same = true, as_stored = true;
    for (std::int32_t step = 0; step < some_steps; ++step) {
      for (Rank rank = 0; rank < many_ranks; ++rank) {
        same &= table->at(step, rank) == rows.at(step, rank) &&
                table->known(step, rank) == rows.known(step, rank);
        const auto i = static_cast<std::size_t>(step) * many_ranks + static_cast<std::size_t>(rank);
        if (metric == Metric::compute && rows.known(step, rank)) {
          as_stored &= rows.at(step, rank) == held.steps().compute[i];
        }
        if (metric == Metric::peak_memory && rows.known(step, rank)) {
          as_stored &= rows.at(step, rank) == held.steps().peak_allocated[i].value;
        }
      }
    }
    CHECK(same);
    CHECK(as_stored);
  }
  const auto odd = outliers(*table_of(read, Metric::compute));
  REQUIRE_FALSE(odd.empty());
  CHECK(odd[0].first_rank == 77);
  const auto found = findings_of(held), again = findings_of(read);
  REQUIRE(found.ok());
  REQUIRE(again.ok());
  REQUIRE(found->size() == again->size());
  for (std::size_t k = 0; k < found->size(); ++k) {
    CHECK((*found)[k].title == (*again)[k].title);
    CHECK((*found)[k].evidence == (*again)[k].evidence);
  }
}

}  // namespace
}  // namespace tessera::analysis
