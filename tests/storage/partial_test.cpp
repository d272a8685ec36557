// SPDX-License-Identifier: Apache-2.0
// What is left when a recording does not come to its end.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "tessera/storage/recover_trace.h"
#include "tests/storage/recording.h"

namespace tessera {
namespace {

using storage::TraceReader;
using storage::TraceWriter;
using test::Folder;
using test::random_recording;

namespace fs = std::filesystem;

/// A clock that ticks a second whenever somebody looks, so that every batch is committed.
storage::TraceWriterOptions hasty() {
  auto seconds = std::make_shared<std::atomic<Time>>(0);
  return {.queue_max = Bytes{4000}, .clock = [seconds] { return *seconds += 1'000'000'000; }};
}

/// Waits until a reader finds all of `recording` at `path`: its diagnostics were sent last.
Result<TraceReader> reader_of_all(const std::string& path, const test::Recording& recording) {
  REQUIRE_FALSE(recording.diagnostics.empty());
  for (int attempts = 3000;; --attempts) {
    auto reader = TraceReader::open(path);
    if (attempts == 0) return reader;
    if (reader.ok() && reader->info().steps == recording.info.steps) {
      const auto diagnostics = reader->diagnostics();
      if (diagnostics.ok() && diagnostics->size() == recording.diagnostics.size()) return reader;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST_CASE("a recording can be read while it goes on, and nothing waits for the next call",
          "[storage][partial]") {
  const Folder folder("live");
  const test::Recording recording = random_recording(51);
  auto writer = TraceWriter::create(folder / "run.tessera", hasty());
  REQUIRE(writer.ok());
  test::send(recording, **writer);
  auto reader = reader_of_all(folder / "run.tessera.partial", recording);
  REQUIRE(reader.ok());
  CHECK(reader->info().unfinished);
  CHECK(reader->info().content_hash.empty());
  CHECK(reader->info().end >= recording.info.end);
  CHECK(reader->verify().ok());
  test::Recording as_is = recording;
  as_is.info.end = reader->info().end;
  test::check_equal(*reader, as_is);
  REQUIRE((*writer)->finish().ok());
  test::check_equal(*reader, as_is);  // it sees what it saw
  auto finished = TraceReader::open(folder / "run.tessera");
  REQUIRE(finished.ok());
  CHECK_FALSE(finished->info().unfinished);
}

TEST_CASE("the bytes do not depend on when something was committed", "[storage][partial]") {
  const Folder folder("commits");
  const test::Recording recording =
      random_recording(52, {.ranks = 6, .steps = 3, .ops = 3000, .samples_per_rank = 300});
  const std::string hash = test::write(recording, folder / "a");
  CHECK(test::write(recording, folder / "b", hasty()) == hash);
  CHECK((test::read_file(folder / "a") == test::read_file(folder / "b")));
}

TEST_CASE("a recording that is killed is a trace of what was recorded, and is recovered",
          "[storage][partial]") {
  const Folder folder("killed");
  const std::string partial = folder / "run.tessera.partial";
  const test::Recording recording = random_recording(53, {.ops = 900, .samples_per_rank = 200});
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto writer = TraceWriter::create(folder / "run.tessera", hasty());
    test::send(recording, **writer);
    for (;;) pause();
  }
  CHECK(reader_of_all(partial, recording).ok());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  test::Recording as_is = recording;
  {
    auto reader = TraceReader::open(partial);
    REQUIRE(reader.ok());
    CHECK(reader->info().unfinished);
    as_is.info.end = reader->info().end;
    test::check_equal(*reader, as_is);
  }
  const auto recovered = storage::recover_trace(partial, folder / "out.tessera");
  INFO(recovered.status().message());
  REQUIRE(recovered.ok());
  CHECK(recovered->steps == recording.info.steps);
  CHECK_FALSE(recovered->was_finished);
  auto reader = TraceReader::open(folder / "out.tessera");
  REQUIRE(reader.ok());
  CHECK_FALSE(reader->info().unfinished);
  CHECK(reader->info().content_hash == recovered->content_hash);
  CHECK(reader->verify().ok());
  CHECK(reader->diagnostics()->back().code == "cut");
  CHECK(fs::exists(partial));
  CHECK(storage::recover_trace(partial, partial).status().message() ==
        "\"" + partial + "\" is to be recovered and to be written: choose another name.");
  // Under the name of a trace it is one with a log, which is none of what is written there next.
  fs::copy_file(partial, folder / "named.tessera");
  fs::copy_file(partial + "-wal", folder / "named.tessera-wal");
  CHECK(TraceReader::open(folder / "named.tessera").ok());
  static_cast<void>(test::write(recording, folder / "named.tessera"));
  CHECK_FALSE(fs::exists(folder / "named.tessera-wal"));
  // Started again, the run leaves alone what the first one has left.
  std::string warning;
  auto again = TraceWriter::create(folder / "run.tessera",
                                   {.warn = [&](const std::string& text) { warning = text; }});
  REQUIRE(again.ok());
  CHECK(warning.find("run.tessera.partial\" is what is left") != std::string::npos);
  test::send(recording, **again);
  REQUIRE((*again)->finish().ok());
  CHECK(TraceReader::open(partial)->info().unfinished);
  CHECK(TraceReader::open(folder / "run.tessera")->verify().ok());
}

TEST_CASE("what is recovered twice, or was finished, is the same", "[storage][partial]") {
  const Folder folder("recovered_twice");
  const std::string hash = test::write(random_recording(54), folder / "a");
  const auto first = storage::recover_trace(folder / "a", folder / "b");
  REQUIRE(first.ok());
  CHECK(first->was_finished);
  CHECK(first->content_hash == hash);
  CHECK((test::read_file(folder / "a") == test::read_file(folder / "b")));
}

TEST_CASE("a writer whose partial file was removed publishes its own bytes only",
          "[storage][partial]") {
  const Folder folder("removed");
  const std::string path = folder / "run.tessera";
  const test::Recording first_run = random_recording(55), second_run = random_recording(56);
  auto first = TraceWriter::create(path, hasty());
  REQUIRE(first.ok());
  test::send(first_run, **first);
  fs::remove(path + ".partial");
  auto second = TraceWriter::create(path, hasty());
  REQUIRE(second.ok());
  test::send(second_run, **second);
  REQUIRE((*first)->finish().ok());
  test::check_equal(*TraceReader::open(path), first_run);
  CHECK(TraceReader::open(path)->verify().ok());
  REQUIRE((*second)->finish().ok());
  test::check_equal(*TraceReader::open(path), second_run);
  CHECK(TraceReader::open(path)->verify().ok());
}

TEST_CASE("on a full disk what fits is a finished trace, and the first word comes at once",
          "[storage][partial][long]") {
  const Folder folder("full_disk_kept");
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // the write then fails with EFBIG
  std::atomic<int> warnings = 0;
  auto options = hasty();
  options.warn = [&](const std::string&) { ++warnings; };
  auto writer = TraceWriter::create(folder / "run.tessera", options);
  REQUIRE(writer.ok());
  const test::Recording recording =
      random_recording(57, {.ranks = 8, .steps = 3, .ops = 30'000, .samples_per_rank = 100});
  rlimit small = before;
  small.rlim_cur = 900'000;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  test::send(recording, **writer);
  const Status status = (*writer)->finish();
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(status.code() == Code::io_error);
  INFO(status.message());
  CHECK(status.message().find("What was recorded until then") != std::string::npos);
  CHECK(warnings == 1);
  CHECK_FALSE(fs::exists(folder / "run.tessera.partial"));
  auto reader = TraceReader::open(folder / "run.tessera");
  REQUIRE(reader.ok());
  CHECK(reader->info().content_hash == (*writer)->content_hash());
  CHECK(reader->verify().ok());
  CHECK_FALSE(reader->ops()->empty());
  CHECK(reader->diagnostics()->back().code == "cut");
}

}  // namespace
}  // namespace tessera
