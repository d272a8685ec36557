// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <thread>

#include "storage/queue.h"
#include "tests/storage/recording.h"

namespace tessera {
namespace {

using storage::TraceReader;
using storage::TraceWriter;
using test::Folder;
using test::random_recording;

TEST_CASE("the same calls give the same bytes, whatever the queue holds", "[storage][writer]") {
  const Folder folder("same_bytes");
  const test::Recording recording =
      random_recording(31, {.ranks = 6, .steps = 3, .ops = 3000, .samples_per_rank = 300});
  const std::string hash = test::write(recording, folder / "a");
  const std::string bytes = test::read_file(folder / "a");
  for (const std::int64_t queue_max : {1, 100, 5000, 1 << 20}) {
    INFO("queue_max=" << queue_max);
    CHECK(test::write(recording, folder / "b", {.queue_max = Bytes{queue_max}}) == hash);
    CHECK((test::read_file(folder / "b") == bytes));
  }
}

TEST_CASE("the queue never holds more than it may, and everything arrives in order",
          "[storage][writer]") {
  using Batch = std::vector<std::byte>;
  storage::Queue<Batch> queue(1000);
  std::vector<std::byte> received;
  std::thread reader([&] {
    while (auto batch = queue.pop()) received.insert(received.end(), batch->begin(), batch->end());
  });
  std::vector<std::byte> sent;
  for (int i = 0; i < 2000; ++i) {
    const Batch batch(static_cast<std::size_t>(i % 300), static_cast<std::byte>(i));
    sent.insert(sent.end(), batch.begin(), batch.end());
    queue.push(batch);
  }
  queue.push(Batch(1000, std::byte{7}));
  sent.insert(sent.end(), 1000, std::byte{7});
  queue.close();
  reader.join();
  CHECK((received == sent));
  CHECK(queue.size_peak() <= 1000);
}

TEST_CASE("a batch larger than the queue passes through alone", "[storage][writer]") {
  using Batch = std::vector<std::byte>;
  storage::Queue<Batch> queue(10);
  std::vector<std::size_t> sizes;
  std::thread reader([&] {
    while (auto batch = queue.pop()) sizes.push_back(batch->size());
  });
  queue.push(Batch(5));
  queue.push(Batch(5000));
  queue.close();
  reader.join();
  CHECK(sizes == std::vector<std::size_t>{5, 5000});
  CHECK(queue.size_peak() == 5000);
}

TEST_CASE("a writer that is abandoned leaves no file", "[storage][writer]") {
  const Folder folder("abandoned");
  {
    auto writer = TraceWriter::create(folder / "run.tessera");
    REQUIRE(writer.ok());
    CHECK(std::filesystem::exists(folder / "run.tessera.partial"));
    test::send(random_recording(32), **writer);
  }
  CHECK(folder.empty());
}

TEST_CASE("an existing file is replaced on success only", "[storage][writer]") {
  const Folder folder("replace");
  const std::string path = folder / "run.tessera";
  test::write_file(path, "precious");
  {
    auto writer = TraceWriter::create(path);
    REQUIRE(writer.ok());
    test::send(random_recording(33), **writer);
  }
  CHECK(test::read_file(path) == "precious");
  auto failing = TraceWriter::create(path);
  REQUIRE(failing.ok());
  CHECK((*failing)->finish().code() == Code::invalid_argument);  // without `begin`
  CHECK((*failing)->content_hash().empty());
  failing = Status(Code::cancelled, "");
  CHECK(test::read_file(path) == "precious");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
  test::write(random_recording(33), path);
  CHECK(TraceReader::open(path).ok());
}

TEST_CASE("a trace goes to the file behind a link", "[storage][writer]") {
  const Folder folder("link");
  std::filesystem::create_symlink(folder / "disk.tessera", folder / "run.tessera");
  test::write(random_recording(33), folder / "run.tessera");
  CHECK(std::filesystem::is_symlink(folder / "run.tessera"));
  CHECK(TraceReader::open(folder / "disk.tessera").ok());
}

TEST_CASE("a partial file of something else is overwritten, one in use is refused",
          "[storage][writer]") {
  const Folder folder("stale");
  const std::string path = folder / "run.tessera";
  test::write_file(path + ".partial", std::string(100'000, 'x'));
  auto first = TraceWriter::create(path);
  REQUIRE(first.ok());
  auto second = TraceWriter::create(path);
  CHECK(second.status().code() == Code::io_error);
  CHECK(second.status().message().find("another recording") != std::string::npos);
  test::send(random_recording(34), **first);
  CHECK((*first)->finish().ok());
  auto reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
}

TEST_CASE("a place that cannot be written to is named", "[storage][writer]") {
  const Folder folder("places");
  for (const std::string& path : {folder / "missing/run.tessera", folder / "", folder / "."}) {
    auto writer = TraceWriter::create(path);
    CHECK(writer.status().code() == Code::io_error);
    CHECK(writer.status().message().find(path) != std::string::npos);
  }
  CHECK(folder.empty());
}

TEST_CASE("calls that contradict each other fail the recording", "[storage][writer]") {
  const Folder folder("contradictions");
  const auto message_of = [&](auto calls) {
    auto writer = TraceWriter::create(folder / "run.tessera");
    REQUIRE(writer.ok());
    TraceRun run;
    run.ranks = 2;
    (*writer)->begin(run);
    calls(**writer);
    const Status status = (*writer)->finish();
    CHECK(status.code() == Code::invalid_argument);
    CHECK((*writer)->finish().message() == status.message());
    return status.message();
  };
  const std::vector<Rank> ranks = {2};
  const std::vector<Time> times = {0};
  CHECK(message_of([](TraceSink& sink) { sink.begin({}); }) ==
        "TraceSink::begin was called twice.");
  CHECK(message_of([](TraceSink& sink) { sink.op({.id = 3}), sink.op({.id = 3}); }) ==
        "Op 3 came after op 3; ids must ascend.");
  CHECK(message_of([&](TraceSink& sink) {
          sink.spans({4, ranks, times, times, times});
        }) == "Spans of op 4 came before the op.");
  CHECK(message_of([&](TraceSink& sink) {
          sink.op({.id = 4});
          sink.spans({4, ranks, times, times, times});
        }) == "A span of rank 2 in a run of 2 ranks.");
  CHECK(message_of([](TraceSink& sink) { sink.rank_steps({.step = 1}); }) ==
        "Step 1 came where step 0 was expected; steps count from 0.");
  CHECK(message_of([](TraceSink& sink) { sink.rank_steps({.step = 0}); }) ==
        "Step 0 has 0 ranks in a run of 2 ranks.");
  message_of([](TraceSink& sink) { sink.stream({.id = 1}), sink.stream({.id = 1}); });
  CHECK(folder.empty());
}

/// Steps of 10 ns in which rank 0 keeps one buffer and uses another for one operation.
std::string write_steps(const std::string& path, const TraceRun& run) {
  auto writer = TraceWriter::create(path);
  REQUIRE(writer.ok());
  TraceSink& sink = **writer;
  sink.begin(run);
  sink.stream({0, "compute", StreamRole::compute});
  sink.buffer({0, "kept", "", MemoryClass::activations, Bytes{5}});
  sink.buffer({1, "used", "", MemoryClass::temporary, Bytes{100}});
  const auto sample = [&](Time time, std::int32_t buffer, std::int64_t delta, std::int64_t all) {
    const MemorySample one{0,
                           time,
                           buffer,
                           buffer == 0 ? MemoryClass::activations : MemoryClass::temporary,
                           Bytes{delta},
                           Bytes{all},
                           Bytes{512}};
    sink.memory({&one, 1});
  };
  const std::vector<Rank> ranks = {0};
  for (std::int32_t step = 0; step < 4; ++step) {
    const Time begin = step * 10, end = begin + 9;
    const std::vector<std::int32_t> after(step > 0 ? 1 : 0, step - 1);
    TraceOp op{.id = step, .step = step};
    op.after = after;
    sink.op(op);
    const std::vector<Time> begins = {begin}, ends = {end}, none = {0};
    sink.spans({step, ranks, begins, begins, ends});
    sample(begin, 0, 5, step * 5 + 5);
    sample(begin, 1, 100, step * 5 + 105);
    sample(end, 1, -100, step * 5 + 5);
    const std::vector<Bytes> bytes = {Bytes{512}};
    sink.rank_steps({step, begins, ends, none, none, none, none, none, bytes, bytes});
  }
  REQUIRE((*writer)->finish().ok());
  return path;
}

TEST_CASE("a recording of some steps has their operations, spans and samples, and all summaries",
          "[storage][writer]") {
  const Folder folder("some_steps");
  TraceRun run;
  run.recorded_ranks = {0};
  run.recorded_from = 2;
  run.recorded_to = 3;
  const auto reader = TraceReader::open(write_steps(folder / "run.tessera", run));
  REQUIRE(reader.ok());
  CHECK(reader->verify().ok());
  CHECK(reader->info().run.recorded_from == 2);
  CHECK(reader->info().run.recorded_to == 3);
  CHECK(reader->info().steps == 4);
  CHECK(reader->rank_steps()->begin == std::vector<Time>{0, 10, 20, 30});
  REQUIRE(reader->ops()->size() == 1);
  CHECK(reader->ops()->front().step == 2);
  CHECK(reader->waits(2, 3)->op.empty());
  const auto lanes = reader->lanes(0, 0, 100);
  REQUIRE(lanes->size() == 1);
  CHECK(lanes->front().begin == std::vector<Time>{20});
  // What was held before comes first, so that sums by class are right.
  const auto memory = reader->memory(0);
  const auto bytes = [](std::vector<std::int64_t> values) {
    return std::vector<Bytes>(values.begin(), values.end());
  };
  CHECK(memory->time == std::vector<Time>{19, 19, 20, 20, 29});
  CHECK(memory->delta == bytes({5, 5, 5, 100, -100}));
  CHECK(memory->allocated == bytes({5, 10, 15, 115, 15}));
}

TEST_CASE("a recording without memory has spans, and says so", "[storage][writer]") {
  const Folder folder("no_memory");
  TraceRun run;
  run.recorded_ranks = {0};
  run.records_memory = false;
  const auto reader = TraceReader::open(write_steps(folder / "run.tessera", run));
  REQUIRE(reader.ok());
  CHECK_FALSE(reader->info().run.records_memory);
  CHECK(reader->memory(0)->time.empty());
  CHECK(reader->lanes(0, 0, 100)->front().begin.size() == 4);
}

}  // namespace
}  // namespace tessera
