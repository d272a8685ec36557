// SPDX-License-Identifier: Apache-2.0
// Each test breaks one thing in the schedule of fully_shard and expects the op checks to say what,
// in which unit and on which rank.
#include <catch2/catch.hpp>
#include <optional>

#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tessera/training.h"
#include "tests/base/models.h"
#include "tests/schemes/fully_shard/faulty_runtime.h"

namespace tessera {
namespace {

using test::FaultyRuntime;

Status run(FaultyRuntime::OpFault op_fault, FaultyRuntime::ReleaseFault release_fault = {}) {
  static const Model model = test::g3();
  Recording recording;
  auto real = make_recording_runtime(4, recording);
  FaultyRuntime runtime(*real, std::move(op_fault), std::move(release_fault));
  auto engine = fully_shard(runtime, model, {.units = {"L1", "L2", "L3"}});
  if (!engine.ok()) return engine.status();
  for (int step = 0; step < 2; ++step) TESSERA_TRY(run_training_step(**engine, model, {}));
  return {};
}

void check_report(const Status& status, Code code, const std::vector<std::string>& parts) {
  INFO(status.message());
  CHECK(status.code() == code);
  for (const std::string& part : parts) CHECK(status.message().find(part) != std::string::npos);
}

bool is(const Op& op, OpKind kind, std::string_view unit, Phase phase) {
  return kind_of(op) == kind && op.cause.unit == unit && op.cause.phase == phase;
}

std::vector<Op> keep(const Op& op) { return {op}; }

TEST_CASE("a clean schedule is not reported", "[shard][faults]") { CHECK(run(keep).ok()); }

TEST_CASE("a dropped wait of compute for an all_gather is reported", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 const bool drop = is(op, OpKind::wait, "L2", Phase::forward) &&
                                   op.cause.reason == Reason::needed;
                 return drop ? std::vector<Op>{} : keep(op);
               }),
               Code::hazard,
               {"copy-out of unit L2", "rank 0", "L2.ag_out", "before the all_gather of unit L2"});
}

TEST_CASE("a dropped wait of the all_gather for its copy-in is reported", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 const bool drop = is(op, OpKind::wait, "L3", Phase::backward) &&
                                   op.cause.reason == Reason::order;
                 return drop ? std::vector<Op>{} : keep(op);
               }),
               Code::hazard, {"all_gather of unit L3", "rank 0", "copy-in of unit L3"});
}

TEST_CASE("a dropped wait of the reduce_scatter for its packed gradients is reported",
          "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 const auto* wait = std::get_if<Wait>(&op.what);
                 const bool drop = wait != nullptr && wait->stream.valid() &&
                                   is(op, OpKind::wait, "L1", Phase::backward) &&
                                   op.stream == StreamId{3};
                 return drop ? std::vector<Op>{} : keep(op);
               }),
               Code::hazard, {"reduce_scatter of unit L1", "rank 0", "L1.rs_in"});
}

TEST_CASE("a gather that does not wait for the optimizer is reported", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 const auto* wait = std::get_if<Wait>(&op.what);
                 const bool drop = wait != nullptr && wait->stream == StreamId{0} &&
                                   op.cause.step == 1 && op.cause.phase == Phase::forward;
                 return drop ? std::vector<Op>{} : keep(op);
               }),
               Code::hazard, {"copy-in of unit root", "rank 0", "shard", "a wait is missing"});
}

TEST_CASE("a buffer released before its last reader is reported", "[shard][faults]") {
  // The gather buffer goes after the all_gather already, not after the copy-out.
  EventId gathered;
  check_report(
      run(
          [&](const Op& op) {
            if (is(op, OpKind::copy, "L2", Phase::backward) &&
                op.cause.reason == Reason::copy_out) {
              gathered = op.after.empty() ? gathered : op.after.front();
            }
            if (is(op, OpKind::wait, "L2", Phase::backward) && op.cause.reason == Reason::needed) {
              gathered = op.after.front();
            }
            return keep(op);
          },
          [&](BufferId, EventId& after) {
            if (gathered.valid()) after = gathered;
            return true;
          }),
      Code::hazard, {"L2.ag_out is released on rank 0 before the copy-out of unit L2"});
}

TEST_CASE("two collectives swapped on one rank are reported", "[shard][faults]") {
  std::optional<Op> held;
  check_report(run([&](const Op& op) -> std::vector<Op> {
                 const bool backward_gather =
                     kind_of(op) == OpKind::all_gather && op.cause.phase == Phase::backward;
                 if (!backward_gather) return keep(op);
                 if (op.cause.unit == "L2") {  // rank 3 enters L2's gather later than the others
                   Op others = op;
                   others.where = RankSet::range(0, 3);
                   return {others};
                 }
                 return keep(op);
               }),
               Code::divergent, {"all_gather of unit L2", "rank 0-2", "rank 3"});
}

TEST_CASE("a wrong shard offset is reported", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 Op changed = op;
                 if (is(op, OpKind::all_gather, "L1", Phase::forward)) {
                   std::get<AllGather>(changed.what).input.first += Numel{1};
                 }
                 return {changed};
               }),
               Code::invalid_argument, {"all_gather of unit L1", "rank 0", "wrong shard offset"});
}

TEST_CASE("a copy-in to the wrong place leaves a hole that is reported", "[shard][faults]") {
  check_report(
      run([](const Op& op) -> std::vector<Op> {
        Op changed = op;
        if (is(op, OpKind::copy, "L1", Phase::forward) && op.cause.reason == Reason::copy_in) {
          auto& pieces = std::get<Copy>(changed.what).pieces;
          pieces.back().to.first = Numel{0};
        }
        return {changed};
      }),
      Code::hazard, {"all_gather of unit L1", "rank 0", "nothing has written"});
}

TEST_CASE("a prefetched all_gather that nobody uses is reported", "[shard][faults]") {
  // The copy-out of L2 is lost; its parameters are copied from nowhere.
  check_report(
      run([](const Op& op) -> std::vector<Op> {
        Op changed = op;
        if (is(op, OpKind::copy, "L2", Phase::backward) && op.cause.reason == Reason::copy_out) {
          for (auto& piece : std::get<Copy>(changed.what).pieces) {
            piece.from.buffer = BufferId{};
            piece.from.end = Numel{0};
          }
        }
        return {changed};
      }),
      Code::hazard, {"L2.ag_out is released on rank 0", "nobody used", "all_gather of unit L2"});
}

TEST_CASE("a lost copy-out is reported where the parameters are read", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 const bool drop = is(op, OpKind::copy, "L3", Phase::forward) &&
                                   op.cause.reason == Reason::copy_out;
                 return drop ? std::vector<Op>{} : keep(op);
               }),
               Code::hazard, {"unit L3", "rank 0"});
}

TEST_CASE("a wrong dtype in a collective is reported", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 Op changed = op;
                 if (is(op, OpKind::reduce_scatter, "L3", Phase::backward)) {
                   auto& view = std::get<ReduceScatter>(changed.what).output;
                   view.dtype = DType::bfloat16;
                 }
                 return {changed};
               }),
               Code::invalid_argument,
               {"reduce_scatter of unit L3", "rank 0", "bfloat16", "float32"});
}

TEST_CASE("a shard of the wrong size is reported", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 Op changed = op;
                 if (is(op, OpKind::reduce_scatter, "L2", Phase::backward)) {
                   std::get<ReduceScatter>(changed.what).output.numel -= Numel{1};
                 }
                 return {changed};
               }),
               Code::invalid_argument, {"reduce_scatter of unit L2", "rank 0", "4 shards of"});
}

TEST_CASE("a use after release is reported", "[shard][faults]") {
  std::optional<Op> gather;
  check_report(run([&](const Op& op) -> std::vector<Op> {
                 if (is(op, OpKind::all_gather, "L1", Phase::forward)) gather = op;
                 if (gather && is(op, OpKind::compute, "L3", Phase::forward)) return {*gather, op};
                 return keep(op);
               }),
               Code::hazard, {"all_gather of unit L1", "rank 0", "L1.ag_out", "after its release"});
}

TEST_CASE("a fault on one rank names that rank", "[shard][faults]") {
  check_report(run([](const Op& op) -> std::vector<Op> {
                 const bool wait = is(op, OpKind::wait, "L2", Phase::forward) &&
                                   op.cause.reason == Reason::needed;
                 Op changed = op;
                 if (wait) changed.where = op.where.minus(RankSet::single(2));
                 return {changed};
               }),
               Code::hazard, {"copy-out of unit L2 on rank 2", "L2.ag_out"});
}

}  // namespace
}  // namespace tessera
