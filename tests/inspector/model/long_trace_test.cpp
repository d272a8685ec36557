// SPDX-License-Identifier: Apache-2.0
// A run of very many steps: what is read of it, and that it is the truth.
#include <catch2/catch.hpp>

#include "tessera/analysis/memory_holders.h"
#include "tests/inspector/app/session.h"
#include "tests/inspector/made_trace.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

constexpr int many_steps = 70'000;

/// One recorded rank with 140,000 spans and 980,000 samples, written once.
const std::string& long_trace(bool peaks) {
  static const test::TemporaryFolder folder;
  static std::string paths[2];
  std::string& path = paths[peaks ? 1 : 0];
  if (!path.empty()) return path;
  path = folder.path() + (peaks ? "/peaks.tessera" : "/long.tessera");
  write_trace({.steps = many_steps, .recorded = 1, .memory_classes = 7, .peaks = peaks}, path);
  return path;
}

std::int64_t chunks_in(const storage::TraceReader& reader) {
  auto size = reader.recorded_size();
  REQUIRE(size.ok());
  return size->spans / 16384 + size->samples / 16384;
}

TEST_CASE("of a long run only what is in view is read", "[inspector][long]") {
  Session session({}, 1280, 720, long_trace(true));
  TraceModel& model = session.app->model();
  REQUIRE(model.is_long());
  CHECK_FALSE(model.holds_ops());
  CHECK(chunks_in(model.reader()) > 60);
  const std::int64_t first = model.reader().chunks_read();
  INFO("first picture: " << first);
  CHECK(first <= 8);
  // Moving about costs a few more, and what is there is not read again.
  session.state().time.show(30'000 * made_step, 30'004 * made_step);
  session.steps(2);
  const std::int64_t moved = model.reader().chunks_read();
  INFO("moved: " << moved - first);
  CHECK(moved - first <= 8);
  session.state().time.show(30'001 * made_step, 30'003 * made_step);
  session.steps(20);
  CHECK(model.reader().chunks_read() == moved);
  // All of it is drawn from sums: the model reads nothing, a thread each chunk of spans once.
  session.state().time.show(0, model.info().end);
  session.steps(3);
  CHECK(model.crowded());
  CHECK(model.reader().chunks_read() == moved);
  CHECK(model.memory(0).by_steps);
}

TEST_CASE("sums of a long run are those of its spans", "[inspector][long]") {
  Session session({.panel = "timeline"}, 640, 360, long_trace(true));
  TraceModel& model = session.app->model();
  session.state().time.show(0, model.info().end);
  session.steps(2);
  const CoarseRank* const coarse = model.coarse(0);
  REQUIRE(coarse != nullptr);
  constexpr int columns = 70;  // of 1,000 steps each
  const auto share = [&](std::int32_t stream) {
    REQUIRE(coarse->lane(stream) != nullptr);
    return coarse->lane(stream)->columns(0, many_steps * made_step, columns, 1e18,
                                         [](std::size_t) { FAIL("single spans are not known"); });
  };
  for (const LaneColumn& column : share(0)) {
    CHECK(column.busy == Approx(0.25).epsilon(0.01));
    CHECK(column.wait == 0);
    CHECK(column.dominant == OpClass::forward);
  }
  for (const LaneColumn& column : share(1)) {
    CHECK(column.busy == Approx(0.5).epsilon(0.01));
    CHECK(column.dominant == OpClass::all_gather);
  }
}

TEST_CASE("memory of a part of a long run is what the whole run says", "[inspector][long]") {
  const bool peaks = GENERATE(true, false);
  INFO("peaks=" << peaks);
  Session session({.panel = "memory"}, 640, 360, long_trace(peaks));
  TraceModel& model = session.app->model();
  auto all = model.reader().memory(0);
  REQUIRE(all.ok());
  const MemoryPyramid whole(all->time, all->memory_class, all->delta, all->allocated,
                            all->reserved);
  for (const int step : {0, 1, 777, 35'000, many_steps - 1}) {
    INFO("step=" << step);
    session.state().time.show(step * made_step, (step + 1) * made_step);
    session.steps(2);
    const RankMemory& memory = model.memory(0);
    REQUIRE(memory.pyramid != nullptr);
    CHECK_FALSE(memory.by_steps);
    CHECK(memory.pyramid->consistent());
    const Time from = step * made_step + 500, to = (step + 1) * made_step;
    const auto here = memory.pyramid->highest(from, to), there = whole.highest(from, to);
    REQUIRE(here >= 0);
    CHECK(memory.pyramid->time(here) == whole.time(there));
    CHECK(memory.pyramid->stack(here) == whole.stack(there));
    // Who holds it, too.
    const RankMemory& around = model.memory_around(0, step);
    REQUIRE(around.pyramid != nullptr);
    const auto sample = static_cast<std::size_t>(around.pyramid->highest(from, to));
    const auto part = analysis::memory_at(around.samples, model.buffers(), sample);
    const auto full = analysis::memory_at(*all, model.buffers(), static_cast<std::size_t>(there));
    REQUIRE(part.holders.size() == full.holders.size());
    for (std::size_t k = 0; k < part.holders.size(); ++k) {
      CHECK(part.holders[k].bytes == full.holders[k].bytes);
      CHECK(part.holders[k].count == full.holders[k].count);
    }
  }
}

TEST_CASE("what is selected in a long run stays, wherever one looks", "[inspector][long]") {
  Session session({}, 1280, 720, long_trace(true));
  TraceModel& model = session.app->model();
  const auto chosen = model.find(0, 2 * 1000 + 1);
  REQUIRE(chosen);
  session.state().selection = chosen;
  const SpanTimes times = model.times(*chosen);
  CHECK(times.begin == 1000 * made_step + made_step / 4);
  const analysis::SpanFacts facts = model.facts(*chosen);
  for (const int step : {1000, 50'000}) {
    session.state().time.show(step * made_step, (step + 2) * made_step);
    session.steps(2);
    CHECK(session.state().selection == chosen);
    CHECK(model.times(*chosen).end == times.end);
    CHECK(model.facts(*chosen).exposed == facts.exposed);
  }
  CHECK_FALSE(model.find(0, 2 * many_steps + 5));
}

TEST_CASE("every panel of a long run answers, whole and in part", "[inspector][long]") {
  const std::string panel =
      GENERATE("overview", "all", "communication", "holders", "model", "path");
  INFO(panel);
  Session session({.panel = panel}, 800, 450, long_trace(true));
  TraceModel& model = session.app->model();
  for (const bool whole : {false, true}) {
    if (whole) session.state().time.show(0, model.info().end);
    session.steps(2);
    CHECK(session.screen.vertex_count() <= 100'000);
    for (const Problem& problem : model.problems()) FAIL_CHECK(problem.text);
  }
}

}  // namespace
}  // namespace tessera::inspector
