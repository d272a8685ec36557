// SPDX-License-Identifier: Apache-2.0
// Whatever stops a save at whatever byte: one checkpoint is whole, and the next save works.
#include "tests/checkpoint/memory_files.h"
#include "tests/checkpoint/written_files.h"
#include "tests/require_ok.h"

namespace tessera {
namespace {

using test::MemoryFiles;
using test::Random;
using test::require_ok;

// The newest checkpoint is one of the two, and whole. Returns its step.
std::int64_t check_loadable(MemoryFiles& files, std::int64_t older, std::int64_t newer) {
  files.fail(MemoryFiles::never, false);
  const auto read = test::read_files(files);
  require_ok(read.status());
  const auto step = static_cast<std::int64_t>((*read)[0][0]);
  REQUIRE((step == older || step == newer));
  REQUIRE(*read == test::expected_files(step));
  return step;
}

// All files belong to complete checkpoints.
void check_tidy(const MemoryFiles& files, std::size_t checkpoints) {
  REQUIRE(files.paths().size() == 3 * checkpoints);
}

std::int64_t events_of_a_save(const MemoryFiles& before, std::int64_t step) {
  MemoryFiles files = before.copy();
  files.fail(MemoryFiles::never, false);
  require_ok(test::write_files(files, step, 1));
  return files.events();
}

// Saves `step` with a failure at every event in turn.
void fail_everywhere(const MemoryFiles& before, std::int64_t older, std::int64_t step,
                     bool for_good, bool power) {
  const std::int64_t events = events_of_a_save(before, step);
  REQUIRE(events > 1500);
  for (std::int64_t k = 0; k < events; ++k) {
    INFO("event " << k << " of " << events);
    MemoryFiles files = before.copy();
    files.fail(k, for_good);
    const Status saved = test::write_files(files, step, 1);
    REQUIRE(saved.code() == Code::io_error);
    Random random(static_cast<std::uint64_t>(k));
    if (power) files.lose_power(random);
    check_loadable(files, older, step);
    if (k % 16 != 0) continue;
    require_ok(test::write_files(files, step + 1, 1));
    REQUIRE(check_loadable(files, step + 1, step + 1) == step + 1);
    check_tidy(files, 1);
  }
}

TEST_CASE("a save that is killed at any byte leaves the one before", "[checkpoint][long]") {
  MemoryFiles before;
  require_ok(test::write_files(before, 1, 1));
  fail_everywhere(before, 1, 2, /*for_good=*/true, /*power=*/false);
}

TEST_CASE("a save during which the power fails at any byte leaves the one before",
          "[checkpoint][long]") {
  MemoryFiles before;
  require_ok(test::write_files(before, 1, 1));
  fail_everywhere(before, 1, 2, /*for_good=*/true, /*power=*/true);
}

TEST_CASE("a disk that refuses one write or call fails the save and nothing else",
          "[checkpoint][long]") {
  MemoryFiles before;
  require_ok(test::write_files(before, 1, 1));
  fail_everywhere(before, 1, 2, /*for_good=*/false, /*power=*/false);
}

TEST_CASE("saving a step again replaces it at once, whatever is killed when",
          "[checkpoint][long]") {
  MemoryFiles before;
  require_ok(test::write_files(before, 2, 1));
  fail_everywhere(before, 2, 2, /*for_good=*/true, /*power=*/true);
}

TEST_CASE("the newest checkpoints are kept and older ones go", "[checkpoint]") {
  MemoryFiles files;
  for (std::int64_t step = 1; step <= 5; ++step) require_ok(test::write_files(files, step, 3));
  const auto found = CheckpointFolder(files, "run").content();
  REQUIRE(found.ok());
  CHECK(found->steps == std::vector<std::int64_t>{3, 4, 5});
  check_tidy(files, 3);
  for (std::int64_t step = 6; step <= 8; ++step) require_ok(test::write_files(files, step, 0));
  check_tidy(files, 6);
}

TEST_CASE("a save of an earlier step than there is is refused", "[checkpoint]") {
  MemoryFiles files;
  require_ok(test::write_files(files, 7, 2));
  const Status status = test::write_files(files, 6, 2);
  CHECK(status.code() == Code::invalid_argument);
  CHECK(status.message() ==
        "run has a checkpoint of step 7, later than the 6 that is to be saved: give another "
        "folder, or remove what is not wanted any more");
}

}  // namespace
}  // namespace tessera
