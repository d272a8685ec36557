// SPDX-License-Identifier: Apache-2.0
// Calls that a writer is told to make later, in its own thread.
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "storage/call_log.h"
#include "tests/random.h"
#include "tests/storage/passing_sink.h"
#include "tests/storage/recording.h"

namespace tessera {
namespace {

using storage::TraceWriter;
using test::Folder;

// Some of its calls reach `to` as they are, others as work.
class SomeDeferred final : public test::PassingSink {
 public:
  SomeDeferred(TraceSink& to, std::uint64_t seed) : PassingSink(to), random_(seed) {}

 private:
  void pass(const std::function<void(TraceSink&)>& call) override {
    if (random_.chance(50)) return call(to_);
    storage::CallLog log;
    call(log);
    const auto size = static_cast<std::int64_t>(log.size());
    const auto calls = std::make_shared<storage::Calls>(log.take());
    to_.defer(Bytes{size}, [calls, caller = std::this_thread::get_id()](TraceSink& sink) {
      TESSERA_ASSERT(caller != std::this_thread::get_id(), "a writer has a thread of its own");
      replay(*calls, sink);
    });
  }

  test::Random random_;
};

TEST_CASE("what is deferred gives the same bytes, whatever the queue holds", "[storage][writer]") {
  const Folder folder("deferred_bytes");
  const test::Recording recording = test::random_recording(41, {.ranks = 4, .ops = 900});
  const std::string hash = test::write(recording, folder / "a");
  for (const std::int64_t queue_max : {1, 3000, 1 << 20}) {
    INFO("queue_max=" << queue_max);
    auto writer = TraceWriter::create(folder / "b", {.queue_max = Bytes{queue_max}});
    REQUIRE(writer.ok());
    SomeDeferred sink(**writer, static_cast<std::uint64_t>(queue_max));
    test::send(recording, sink);
    REQUIRE(sink.finish().ok());
    CHECK((*writer)->content_hash() == hash);
    CHECK((test::read_file(folder / "b") == test::read_file(folder / "a")));
  }
}

TEST_CASE("what deferred work gets wrong is told as if the caller had", "[storage][writer]") {
  const Folder folder("deferred_errors");
  const auto steps_skip = [](TraceSink& sink) { sink.rank_steps({.step = 1}); };
  std::vector<std::string> said;
  for (const bool deferred : {false, true}) {
    auto writer = TraceWriter::create(folder / "run.tessera");
    REQUIRE(writer.ok());
    TraceRun run;
    (*writer)->begin(run);
    if (deferred) {
      (*writer)->defer({}, steps_skip);
    } else {
      steps_skip(**writer);
    }
    said.push_back((*writer)->finish().message());
  }
  CHECK(!said[0].empty());
  CHECK(said[0] == said[1]);
}

TEST_CASE("work that waits counts by its size, and what it holds goes with the writer",
          "[storage][writer]") {
  storage::CallLog log;
  log.defer(Bytes{5000}, [](TraceSink&) {});
  CHECK(log.size() >= 5000);
  static_cast<void>(log.take());
  CHECK(log.size() == 0);

  const Folder folder("deferred_abandoned");
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> seen = held;
  {
    auto writer = TraceWriter::create(folder / "run.tessera");
    REQUIRE(writer.ok());
    (*writer)->defer({}, [held = std::move(held)](TraceSink&) {});
  }
  CHECK(seen.expired());
  CHECK(folder.empty());
}

}  // namespace
}  // namespace tessera
