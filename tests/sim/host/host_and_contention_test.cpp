// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "sim/lockstep/contention.h"
#include "sim/ranks/rank_speeds.h"
#include "tessera/sim/lockstep_runtime.h"
#include "tests/sim/test_costs.h"

namespace tessera::sim {
namespace {

const test::TestCosts costs;  // a computation takes 1000 ns and its FLOPs

Time end_of(const LockstepOptions& options, int kernels, bool wait_after_each) {
  auto runtime = LockstepRuntime::create(options);
  REQUIRE(runtime.ok());
  const auto stream = (*runtime)->create_stream("compute", StreamRole::compute);
  REQUIRE(stream.ok());
  EventId last;
  for (int k = 0; k < kernels; ++k) {
    Op op{.stream = *stream, .where = RankSet::all(options.world_size)};
    op.what = Compute{};
    const auto event = (*runtime)->submit(op);
    REQUIRE(event.ok());
    last = *event;
    if (wait_after_each) REQUIRE((*runtime)->wait(last).ok());
  }
  REQUIRE((*runtime)->wait(last).ok());
  return (*runtime)->now()[0];
}

Clock clock_at(ClockPool& pool, Time time) {
  auto clock = pool.take();
  std::fill(clock->times().begin(), clock->times().end(), time);
  clock->lowest = clock->highest = time;
  return clock;
}

}  // namespace

TEST_CASE("a slow host bounds the device, a fast one is hidden behind it", "[host]") {
  LockstepOptions options{.world_size = 2, .cost = &costs};
  CHECK(end_of(options, 10, false) == 10'000);
  options.host = {.kernel_ns = 400, .module_ns = 100};
  CHECK(end_of(options, 10, false) == 500 + 10'000);
  options.host = {.kernel_ns = 2'000};
  CHECK(end_of(options, 10, false) == 10 * 2'000 + 1'000);
}

TEST_CASE("the host is blocked while a stream holds as many launches as it takes", "[host]") {
  auto runtime = LockstepRuntime::create(
      {.world_size = 2, .cost = &costs, .host = {.kernel_ns = 10, .queue_launches = 64}});
  REQUIRE(runtime.ok());
  const auto busy = (*runtime)->create_stream("busy", StreamRole::compute);
  const auto other = (*runtime)->create_stream("other", StreamRole::copy);
  for (int k = 1; k <= 300; ++k) {
    Op op{.stream = *busy, .where = RankSet::all(2)};
    op.what = Compute{};
    REQUIRE((*runtime)->submit(op).ok());
    const Time now = (*runtime)->now()[0];
    const Time first_begins = 10;
    const auto over = (now - first_begins) / 1'000;  // of those that took 1000 ns each
    CHECK(k - over <= 64 + 8);                       // counted in lots
    CHECK(k - over >= std::min(k, 64));
  }
  // Streams have queues of their own.
  const Time before = (*runtime)->now()[0];
  Op op{.stream = *other, .where = RankSet::all(2)};
  op.what = Compute{};
  REQUIRE((*runtime)->submit(op).ok());
  CHECK((*runtime)->now()[0] == before + 10);
}

TEST_CASE("between passes the host pauses, with the device or beside it", "[host]") {
  LockstepOptions options{.world_size = 1, .cost = &costs};
  // One forward pass of a computation, and the optimizer.
  const auto end_of_step = [&] {
    auto runtime = LockstepRuntime::create(options);
    REQUIRE(runtime.ok());
    const auto stream = *(*runtime)->create_stream("compute", StreamRole::compute);
    EventId last;
    for (const Phase phase : {Phase::forward, Phase::optimizer}) {
      Op op{.stream = stream, .where = RankSet::all(1)};
      op.cause.phase = phase;
      op.what = Mark{.kind = marks::phase};
      REQUIRE((*runtime)->submit(op).ok());
      op.what = Compute{};
      const auto event = (*runtime)->submit(op);
      REQUIRE(event.ok());
      last = *event;
    }
    REQUIRE((*runtime)->wait(last).ok());
    return (*runtime)->now()[0];
  };
  CHECK(end_of_step() == 2'000);
  options.host.pass_ns = 300;
  CHECK(end_of_step() == 300 + 2'000);
  options.host.step_ns = 70;
  CHECK(end_of_step() == 300 + 2'000 + 70);
  options.host.micro_batch_ns = 5;
  CHECK(end_of_step() == 305 + 2'000 + 70);
}

TEST_CASE("a rank with one thread runs its streams one after the other", "[host]") {
  LockstepOptions options{.world_size = 2, .cost = &costs};
  const auto end_of_two_streams = [&] {
    auto runtime = LockstepRuntime::create(options);
    REQUIRE(runtime.ok());
    for (const char* name : {"one", "other"}) {
      const auto stream = (*runtime)->create_stream(name, StreamRole::compute);
      REQUIRE(stream.ok());
      Op op{.stream = *stream, .where = RankSet::all(options.world_size)};
      op.cause.module = "model.layers.3.mlp";
      op.cause.phase = Phase::forward;
      op.what = Compute{};
      const auto event = (*runtime)->submit(op);
      REQUIRE(event.ok());
      REQUIRE((*runtime)->poll().ok());
      if (std::string(name) == "other") REQUIRE((*runtime)->wait(*event).ok());
    }
    return (*runtime)->now()[0];
  };
  CHECK(end_of_two_streams() == 1'000);
  options.one_thread = true;
  CHECK(end_of_two_streams() == 2'000);
  options.between_ns = 50;
  CHECK(end_of_two_streams() == 2'050);
  options.parts = {{"mlp", Phase::forward, 200, 0.5}, {"mlp", Phase::backward, 9'000, 1}};
  CHECK(end_of_two_streams() == 2 * 700 + 50);
}

TEST_CASE("a part is the last name of a module that is no number, or what is done", "[host]") {
  CHECK(part_of("transformer.h.3.mlp", Reason::none) == "mlp");
  CHECK(part_of("transformer.h.3", Reason::recompute) == "h");
  CHECK(part_of("transformer.h.3.attn", Reason::none) == "self_attn");
  CHECK(part_of("", Reason::step) == "step");
  CHECK(part_of("12", Reason::copy_in) == "copy_in");
}

TEST_CASE("where the host waits for the device it cannot run ahead", "[host]") {
  const LockstepOptions options{.world_size = 2, .cost = &costs, .host = {.kernel_ns = 400}};
  CHECK(end_of(options, 10, true) == 10 * (400 + 1'000));
}

TEST_CASE("a kernel keeps a share of its speed while communication moves data", "[contention]") {
  ClockPool pool(3);
  Contention half(0.5);
  half.add(clock_at(pool, 1'000), 400);  // from 600 to 1000
  const auto end = [&](Time begin, Time work) {
    return (*half.stretched(clock_at(pool, begin), clock_at(pool, begin + work), pool))[1];
  };
  CHECK(end(0, 500) == 500);
  CHECK(end(0, 700) == 800);      // 100 of it at half speed
  CHECK(end(0, 1'000) == 1'200);  // all 400 ns of communication cost 200
  CHECK(end(800, 50) == 900);
  CHECK(end(1'000, 50) == 1'050);
}

TEST_CASE("two collectives at once slow a kernel down as one does", "[contention]") {
  ClockPool pool(1);
  Contention half(0.5);
  half.add(clock_at(pool, 1'000), 1'000);
  half.add(clock_at(pool, 800), 800);
  CHECK((*half.stretched(clock_at(pool, 0), clock_at(pool, 400), pool))[0] == 800);
}

TEST_CASE("collectives that are over before any rank begins slow no kernel down", "[contention]") {
  ClockPool pool(2);
  Contention half(0.5);
  for (Time end = 100; end <= 1'000; end += 100) half.add(clock_at(pool, end), 100);
  auto begin = pool.take();  // the first rank has nothing to do, and waits from the beginning
  begin->times() = {0, 950};
  begin->lowest = 0;
  begin->highest = 950;
  auto alone = pool.take();
  alone->times() = {0, 1'050};
  alone->lowest = 0;
  alone->highest = 1'050;
  const Clock end = half.stretched(begin, alone, pool);
  CHECK((*end)[0] == 0);
  CHECK((*end)[1] == 1'075);  // 50 ns beside the last one
}

TEST_CASE("speeds of ranks last, depend on the seed and average out", "[ranks]") {
  const Spread spread{.gpu = 0.02, .node = 0.01};
  const auto slow = rank_slowness(spread, 4096, 8, 7);
  CHECK(slow == rank_slowness(spread, 4096, 8, 7));
  CHECK(slow != rank_slowness(spread, 4096, 8, 8));
  CHECK(rank_slowness({}, 4096, 8, 7).empty());
  const double mean = std::accumulate(slow.begin(), slow.end(), 0.0) / 4096 / (1 << 20);
  CHECK(std::abs(mean) < 0.002);
  double squares = 0;
  for (std::int32_t s : slow) squares += std::pow(static_cast<double>(s) / (1 << 20) - mean, 2);
  CHECK(std::sqrt(squares / 4096) == Approx(std::sqrt(0.0005)).epsilon(0.05));
}

}  // namespace tessera::sim
