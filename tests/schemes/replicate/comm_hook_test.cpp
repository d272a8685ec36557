// SPDX-License-Identifier: Apache-2.0
// Hooks: what they compute, to the bit, and when they are refused.
#include "tessera/comm_hook.h"

#include <catch2/catch.hpp>

#include "tessera/fully_shard.h"
#include "tessera/recording.h"
#include "tests/schemes/replicate/replicas.h"
#include "tests/schemes/replicate/watched_hook.h"

namespace tessera {
namespace {

using test::WatchedHook;

float through(DType dtype, float value) {
  std::array<std::byte, 4> bytes{};
  store_number(bytes, dtype, 0, value);
  return load_number(bytes, dtype, 0);
}

// Cast, divide, sum over ranks in float32, each rounded once.
float reduced(DType dtype, const WatchedHook::Values& before, std::size_t i, float divisor) {
  float sum = 0;
  for (const auto& [rank, values] : before) {
    const float share = through(dtype, through(dtype, values[i]) / divisor);
    sum = rank == 0 ? share : sum + share;
  }
  return through(dtype, sum);
}

TEST_CASE("hooks average with their dtype's roundings, to the bit", "[reduce][hook][numerics]") {
  const auto [inner, dtype] = GENERATE(
      table<std::shared_ptr<CommHook> (*)(), DType>({{allreduce_hook, DType::float32},
                                                     {fp16_compress_hook, DType::float16},
                                                     {bf16_compress_hook, DType::bfloat16}}));
  const Rank ranks = GENERATE(1, 2, 3, 7);
  const bool views = GENERATE(false, true);
  INFO(name_of(dtype) << ", ranks " << ranks << ", views " << views);
  const Model model = test::g3();
  const auto hook = std::make_shared<WatchedHook>(inner());
  test::Replicas replicas(ranks, model,
                          {.bucket_cap = Bytes{200},
                           .first_bucket_cap = Bytes{100},
                           .gradient_as_bucket_view = views,
                           .comm_hook = hook});
  test::require_ok(replicas.engine->initialise(test::initial_value));
  for (int step = 0; step < 3; ++step) {
    test::require_ok(run_training_step(*replicas.engine, model, test::formula_training(model)));
  }
  test::require_ok(replicas.runtime->finish());
  CHECK(hook->calls.size() == 1 + 3 + 3);
  for (const auto& call : hook->calls) {
    CHECK(call->divisor == static_cast<float>(ranks));
    for (const auto& [rank, values] : call->after) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        REQUIRE(values[i] == reduced(dtype, call->before, i, call->divisor));
      }
    }
  }
}

TEST_CASE("a hook sees every parameter of the bucket in its place", "[reduce][hook]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::g3();
  const auto hook = std::make_shared<WatchedHook>(allreduce_hook());
  auto engine = replicate(*runtime, model, {.first_bucket_cap = Bytes{100}, .comm_hook = hook});
  REQUIRE(engine.ok());
  for (int step = 0; step < 2; ++step) {
    test::require_ok(run_training_step(**engine, model, {}));
  }
  REQUIRE(hook->calls.size() == 3);
  const GradBucket& first = hook->calls[1]->bucket;
  CHECK(first.index == 0);
  CHECK_FALSE(first.is_last);
  CHECK(hook->calls[2]->bucket.is_last);
  CHECK(first.values.numel == Numel{26});
  std::vector<std::string_view> names;
  Numel at{};
  for (const BucketParameter& p : first.parameters) {
    names.push_back(p.name);
    CHECK(p.offset == at);
    CHECK(p.shape == model.parameter(p.id).shape);
    at += p.numel;
  }
  CHECK(names == std::vector<std::string_view>{"head.bias", "head.weight", "L3.bias", "L3.weight"});
}

TEST_CASE("a compressing hook moves half the bytes", "[reduce][hook]") {
  Recording recording;
  const auto runtime = make_recording_runtime(4, recording);
  const Model model = test::g3();
  auto engine = replicate(*runtime, model, {.comm_hook = fp16_compress_hook()});
  REQUIRE(engine.ok());
  test::require_ok(run_training_step(**engine, model, {}));
  Bytes reduced{};
  for (const Record& r : recording.records) {
    if (const auto* op = std::get_if<AllReduce>(&r.op.what)) {
      reduced += bytes_of(op->input.numel, op->input.dtype);
    }
  }
  CHECK(reduced == Bytes{model.parameter_count().value * 2});
}

class BrokenHook final : public CommHook {
 public:
  std::string_view name() const override { return "broken"; }
  Result<EventId> reduce(const GradBucket&, HookContext&) override {
    if (silent) return EventId{};
    return Status(Code::not_supported, "out of order today");
  }
  bool silent = false;
};

TEST_CASE("a hook that fails is named with its bucket", "[reduce][hook][errors]") {
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const Model model = test::g3();
  const auto hook = std::make_shared<BrokenHook>();
  hook->silent = GENERATE(false, true);
  auto engine = replicate(*runtime, model, {.comm_hook = hook});
  REQUIRE(engine.ok());
  const Status status = run_training_step(**engine, model, {});
  INFO(status.message());
  CHECK(status.code() == (hook->silent ? Code::invalid_argument : Code::not_supported));
  CHECK(status.message().find("communication hook broken on bucket 0") != std::string::npos);
}

TEST_CASE("a hook is registered once and before the first step", "[reduce][hook][errors]") {
  Recording recording;
  auto runtime = make_recording_runtime(2, recording);
  const Model model = test::g3();
  SECTION("twice") {
    auto engine = replicate(*runtime, model, {.comm_hook = fp16_compress_hook()});
    REQUIRE(engine.ok());
    test::check_refused(register_comm_hook(**engine, bf16_compress_hook()),
                        "hook bf16: the engine has a hook already, fp16");
  }
  SECTION("too late") {
    auto engine = replicate(*runtime, model, {});
    REQUIRE(engine.ok());
    test::require_ok((*engine)->begin_forward());
    test::check_refused(register_comm_hook(**engine, allreduce_hook()),
                        "after the first forward pass");
  }
  SECTION("in time") {
    auto engine = replicate(*runtime, model, {});
    REQUIRE(engine.ok());
    test::check_refused(register_comm_hook(**engine, nullptr), "no communication hook");
    const auto hook = std::make_shared<WatchedHook>(allreduce_hook());
    test::require_ok(register_comm_hook(**engine, hook));
    test::require_ok(run_training_step(**engine, model, {}));
    CHECK(hook->calls.size() == 1);
  }
  SECTION("with another scheme") {
    auto engine = fully_shard(*runtime, model, {});
    REQUIRE(engine.ok());
    test::check_refused(register_comm_hook(**engine, allreduce_hook()),
                        "register_comm_hook is for engines made by replicate");
  }
}

}  // namespace
}  // namespace tessera
