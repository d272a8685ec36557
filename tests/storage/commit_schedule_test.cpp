// SPDX-License-Identifier: Apache-2.0
// When recordings are committed.
#include "storage/commit_schedule.h"

#include <catch2/catch.hpp>

namespace tessera {
namespace {

using storage::CommitSchedule;

constexpr Time ms = 1'000'000;

/// One that has committed once, at `last`, which took `took`.
CommitSchedule committed_once(Time last, Time took = 0) {
  CommitSchedule schedule(true);
  schedule.begin(0);
  schedule.recorded(1);
  CHECK(schedule.take());
  schedule.committed(last - took, last);
  return schedule;
}

TEST_CASE("what run it is is committed at once, what comes then after 150 ms",
          "[storage][commits]") {
  CommitSchedule schedule(true);
  schedule.begin(5000 * ms);
  CHECK_FALSE(schedule.due(5001 * ms));
  schedule.recorded(100);
  CHECK(schedule.due(5001 * ms));
  CHECK(schedule.take());
  schedule.committed(5001 * ms, 5002 * ms);
  schedule.recorded(100);
  CHECK_FALSE(schedule.due(5151 * ms));
  CHECK(schedule.due(5152 * ms));
}

TEST_CASE("calls that come just before a commit is due do not put it off", "[storage][commits]") {
  CommitSchedule schedule = committed_once(1000 * ms);
  CHECK(schedule.patience(1000 * ms) == 150 * ms);
  schedule.recorded(100);
  CHECK(schedule.patience(1140 * ms) == 10 * ms);
  CHECK(schedule.patience(1400 * ms) == 0);
}

TEST_CASE("a commit that takes long comes less often, and ends before a quarter second is over",
          "[storage][commits]") {
  const CommitSchedule slow = committed_once(1000 * ms, 45 * ms);
  CHECK_FALSE(slow.due(1179 * ms));
  CHECK(slow.due(1180 * ms));
  CHECK_FALSE(slow.late(1194 * ms));
  CHECK(slow.late(1195 * ms));
  const CommitSchedule slower = committed_once(1000 * ms, 200 * ms);
  CHECK(slower.due(1150 * ms));
  CHECK(slower.late(1150 * ms));
}

TEST_CASE("without a clock bytes decide", "[storage][commits]") {
  CommitSchedule schedule(false);
  schedule.begin(0);
  schedule.recorded(1);
  CHECK(schedule.take());
  schedule.committed(0, 0);
  schedule.recorded(1000);
  CHECK_FALSE(schedule.due(0));
  CHECK_FALSE(schedule.late(0));
  schedule.recorded(64 << 20);
  CHECK(schedule.due(0));
}

}  // namespace
}  // namespace tessera
