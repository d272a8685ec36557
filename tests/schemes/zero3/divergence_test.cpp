// SPDX-License-Identifier: Apache-2.0
// Ranks that would gather in different orders are found before data moves; and a strict schedule
// without one of its waits is found, too.
#include "tests/schemes/fully_shard/faulty_runtime.h"
#include "tests/schemes/zero3/strict_run.h"

namespace tessera {
namespace {

using test::FaultyRuntime;

Status run(const FaultyRuntime::OpFault& fault) {
  static const Model model = test::net3();
  Recording recording;
  auto real = make_recording_runtime(4, recording);
  FaultyRuntime runtime(*real, fault, {});
  TESSERA_ASSIGN(auto engine, zero3(runtime, model, {.persistence_threshold = Numel{0}}));
  for (int step = 0; step < 3; ++step) TESSERA_TRY(run_training_step(*engine, model, {}));
  return {};
}

bool gathers(const Op& op, std::string_view unit) {
  return kind_of(op) == OpKind::all_gather && op.cause.unit == unit && op.cause.step == 2;
}

TEST_CASE("ranks that gather in different orders are named before data moves (DeepSpeed Z10)",
          "[zero3][strict][faults]") {
  const Status status = run([](const Op& op) -> std::vector<Op> {
    if (!gathers(op, "a")) return {op};
    Op others = op;  // rank 3 has another trace: it gathers b first
    others.where = RankSet::range(0, 3);
    return {others};
  });
  INFO(status.message());
  CHECK(status.code() == Code::divergent);
  for (const char* part : {"all_gather of unit a", "rank 0-2", "rank 3"}) {
    CHECK(status.message().find(part) != std::string::npos);
  }
}

TEST_CASE("strict waits for exactly what a module needs: without one wait it is a hazard",
          "[zero3][strict][faults]") {
  CHECK(run([](const Op& op) { return std::vector<Op>{op}; }).ok());
  const Status status = run([](const Op& op) -> std::vector<Op> {
    const bool drop = kind_of(op) == OpKind::wait && op.cause.unit == "a" && op.cause.step == 1 &&
                      op.cause.reason == Reason::needed && op.stream == StreamId{0};
    return drop ? std::vector<Op>{} : std::vector<Op>{op};
  });
  INFO(status.message());
  CHECK(status.code() == Code::hazard);
  CHECK(status.message().find("a.w.full") != std::string::npos);
}

}  // namespace
}  // namespace tessera
