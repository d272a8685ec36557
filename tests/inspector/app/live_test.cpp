// SPDX-License-Identifier: Apache-2.0
// A recording that is looked at while it goes on.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include "tessera/storage/trace_writer.h"
#include "tests/inspector/app/session.h"
#include "tests/temporary_folder.h"

namespace tessera::inspector {
namespace {

constexpr Time step_ns = 1'000'000;

/// Two ranks that compute and gather in each step. Whatever was recorded is committed soon, as the
/// clock ticks a second whenever somebody looks.
struct Recording {
  test::TemporaryFolder folder;
  std::string path = folder.path() + "/run.tessera";
  std::shared_ptr<std::atomic<Time>> seconds = std::make_shared<std::atomic<Time>>(0);
  std::unique_ptr<storage::TraceWriter> writer;
  int steps = 0;

  Recording() {
    auto made = storage::TraceWriter::create(
        path, {.clock = [ticks = seconds] { return *ticks += 1'000'000'000; }});
    REQUIRE(made.ok());
    writer = std::move(made).value();
    writer->begin({.name = "live", .backend = "mpi", .ranks = 2, .recorded_ranks = {0, 1}});
    writer->stream({0, "compute", StreamRole::compute});
    writer->buffer({.id = 0, .name = "weight", .bytes = Bytes{1 << 20}});
  }
  void record_step() {
    const Rank ranks[] = {0, 1};
    const Time from = steps * step_ns, to = from + step_ns / 2;
    const Time begin[] = {from, from}, end[] = {to, to}, over[] = {from + step_ns, from + step_ns};
    const Time half[] = {step_ns / 2, step_ns / 2}, none[] = {0, 0};
    const Bytes peak[] = {Bytes{1 << 20}, Bytes{1 << 20}};
    writer->op({.id = steps, .step = steps, .phase = Phase::forward, .module = "layers.0"});
    writer->spans({steps, ranks, begin, begin, end});
    for (const Rank rank : ranks) {
      const MemorySample sample{rank,
                                from + 1,
                                0,
                                MemoryClass::activations,
                                Bytes{1 << 20},
                                Bytes{(steps + 1) << 20},
                                Bytes{(steps + 1) << 20}};
      writer->memory({&sample, 1});
    }
    writer->rank_steps({steps, begin, over, half, none, none, none, none, peak, peak});
    ++steps;
  }
  /// Until a reader of the file finds `wanted` steps.
  void await(int wanted) const {
    for (int attempts = 0; attempts < 2000; ++attempts) {
      const auto reader = storage::TraceReader::open(path + ".partial");
      if (reader.ok() && reader->info().steps >= wanted) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL("the writer did not commit");
  }
};

TEST_CASE("what is added to a recording appears, and the view follows its end or stands still",
          "[inspector][app][live]") {
  Recording recording;
  for (int k = 0; k < 3; ++k) recording.record_step();
  recording.await(3);
  CHECK(trace_file(recording.path) == recording.path + ".partial");
  Session session({}, 1280, 720, trace_file(recording.path));
  App& app = *session.app;
  CHECK(app.follows());
  CHECK(session.state().fields["live"] == "● until 3.00 ms");
  CHECK(session.state().time.to() == app.model().info().end);

  for (int k = 0; k < 4; ++k) recording.record_step();
  recording.await(7);
  session.steps(2);
  CHECK(app.model().step_count() == 7);
  CHECK(session.state().fields["live"] == "● until 7.00 ms");
  CHECK(session.state().time.to() == 7 * step_ns);
  CHECK(app.model().rank(0).lanes[0].spans.op.size() == 7);
  CHECK(app.model().problems().empty());

  // Whoever moves the view looks at something, which stays.
  session.state().time.show(step_ns, 2 * step_ns);
  session.state().selection = SpanRef{1, 0, 1};
  session.steps(1);
  CHECK_FALSE(app.follows());
  recording.record_step();
  recording.await(8);
  session.steps(2);
  CHECK(app.model().step_count() == 8);
  CHECK(session.state().time.from() == step_ns);
  CHECK(session.state().time.to() == 2 * step_ns);
  CHECK(session.state().selection == SpanRef{1, 0, 1});

  session.press(GLFW_KEY_L);
  CHECK(app.follows());
  CHECK(session.state().time.to() == 8 * step_ns);
  CHECK(session.state().time.from() == 7 * step_ns);
  session.click("live");
  CHECK_FALSE(app.follows());

  // Finished, it has its own name, and nothing is looked for any more.
  recording.record_step();
  REQUIRE(recording.writer->finish().ok());
  session.steps(2);
  CHECK(app.model().step_count() == 9);
  CHECK(app.model().path() == recording.path);
  CHECK_FALSE(session.state().widgets.contains("no such widget"));
  session.state().fields["live"].clear();
  session.steps(1);
  CHECK(session.state().fields["live"].empty());
}

TEST_CASE("a recording that has only begun shows its steps when there are some",
          "[inspector][app][live]") {
  Recording recording;
  recording.await(0);
  Session session({}, 1280, 720, trace_file(recording.path));
  CHECK(session.app->follows());
  for (int k = 0; k < 2; ++k) recording.record_step();
  recording.await(2);
  session.steps(2);
  CHECK(session.state().time.from() == step_ns);
  CHECK(session.state().time.to() == 2 * step_ns);
  CHECK(session.app->follows());
}

TEST_CASE("every panel goes on with a recording", "[inspector][app][live]") {
  Recording recording;
  for (int k = 0; k < 2; ++k) recording.record_step();
  recording.await(2);
  Session session({}, 1280, 720, trace_file(recording.path));
  int steps = 2;
  for (const std::string& panel : panel_names()) {
    INFO(panel);
    session.state().panel = panel;
    session.steps(2);
    recording.record_step();
    recording.await(++steps);
    session.steps(2);
    CHECK(session.app->model().step_count() == steps);
  }
}

TEST_CASE("a trace without end that nobody writes is shown as it is", "[inspector][app][live]") {
  Recording recording;
  recording.record_step();
  recording.await(1);
  Session session({}, 1280, 720, trace_file(recording.path));
  session.steps(3);
  CHECK(session.app->model().step_count() == 1);
  CHECK(session.state().fields["banner"].find("unfinished") != std::string::npos);
}

}  // namespace
}  // namespace tessera::inspector
