// SPDX-License-Identifier: Apache-2.0
// When a HostRuntime carries out what was submitted.
#include <atomic>
#include <memory>

#include "tests/host/thread_ranks.h"

namespace tessera {
namespace {

// A millisecond passes whenever somebody looks.
std::function<Time()> patient_clock() {
  auto looks = std::make_shared<std::atomic<Time>>(0);
  return [looks] { return *looks += 1'000'000; };
}

struct Streams {
  StreamId compute, communication;
  CommunicatorId world;
};

Result<Streams> make_streams(Runtime& runtime) {
  Streams s;
  TESSERA_ASSIGN(s.compute, runtime.create_stream("compute", StreamRole::compute));
  TESSERA_ASSIGN(s.communication, runtime.create_stream("comm", StreamRole::communication));
  TESSERA_ASSIGN(const auto all,
                 RankGroups::strided(runtime.world().count(), runtime.world().count()));
  TESSERA_ASSIGN(s.world, runtime.create_communicator(all, "world"));
  return s;
}

Result<View> numbers(Runtime& runtime, const Streams& s, std::int64_t numel) {
  TESSERA_ASSIGN(const BufferId id, runtime.allocate({.bytes = Bytes{4 * numel},
                                                      .stream = s.compute,
                                                      .where = runtime.world(),
                                                      .cause = {},
                                                      .name = "numbers"}));
  return View::whole(id, DType::float32, Numel{numel});
}

Op on(Runtime& runtime, StreamId stream, decltype(Op::what) what) {
  return {.stream = stream,
          .where = runtime.world(),
          .after = {},
          .cause = {.unit = "here"},
          .what = std::move(what)};
}

Compute fill(const View& view, float value) {
  return {.cost = {}, .reads = {}, .writes = {view}, .body = [value](const BodyContext& context) {
            for (float& x : context.write_as<float>(0))
              x = value + static_cast<float>(context.rank());
          }};
}

TEST_CASE("a collective does not stop the host until somebody needs its result", "[host]") {
  // Rank 1 submits its part only after rank 0 has gone on to compute.
  std::atomic<bool> computed{false};
  const HostOptions options{.clock = patient_clock(), .deadline = 500'000'000'000};
  test::require_all_ok(test::on_threads(2, options, [&](HostRuntime& host, Rank rank) -> Status {
    Runtime& runtime = host.seam();
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View sum, numbers(runtime, s, 3));
    TESSERA_ASSIGN(const View other, numbers(runtime, s, 1));
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(sum, 1))).status());
    TESSERA_TRY(runtime.submit(on(runtime, s.communication, Wait{s.compute})).status());
    while (rank == 1 && !computed) std::this_thread::yield();
    TESSERA_ASSIGN(
        const EventId reduced,
        runtime.submit(on(runtime, s.communication, AllReduce{s.world, sum, sum, Reduction::sum})));
    Compute tells = fill(other, 5);
    tells.body = [&computed](const BodyContext&) { computed = true; };
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, tells)).status());
    Op wait = on(runtime, s.compute, Wait{});
    wait.after = {&reduced, 1};
    TESSERA_TRY(runtime.submit(wait).status());
    TESSERA_ASSIGN(const auto total, runtime.read(sum));
    TESSERA_ASSIGN(const float value, total.uniform("the sum"));
    return value == 3 ? Status{} : Status(Code::corrupt, "a wrong sum");
  }));
}

TEST_CASE("values that differ between ranks are seen by all of them", "[host]") {
  test::require_all_ok(test::on_threads(3, {}, [](HostRuntime& host, Rank) -> Status {
    Runtime& runtime = host.seam();
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View x, numbers(runtime, s, 1));
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(x, 4))).status());
    TESSERA_ASSIGN(const auto all, runtime.read(x));
    if (all.uniform("x").ok()) return Status(Code::corrupt, "ranks agree");
    return all[2] == 6 ? Status{} : Status(Code::corrupt, "rank 2 has another value");
  }));
}

TEST_CASE("a rank that never comes ends the run at the deadline, by name", "[host]") {
  HostOptions options{.clock = patient_clock(), .deadline = 50'000'000};
  const auto statuses = test::on_threads(2, options, [](HostRuntime& host, Rank rank) -> Status {
    Runtime& runtime = host.seam();
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View x, numbers(runtime, s, 2));
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(x, 1))).status());
    if (rank == 1) return {};  // goes home
    TESSERA_TRY(runtime.submit(on(runtime, s.communication, Wait{s.compute})).status());
    TESSERA_ASSIGN(
        const EventId done,
        runtime.submit(on(runtime, s.communication, AllReduce{s.world, x, x, Reduction::sum})));
    return runtime.wait(done);
  });
  CHECK(statuses[0].code() == Code::timed_out);
  CHECK(statuses[0].message() ==
        "rank 0 waited 0.1 s for the all_reduce of unit here: another rank is dead, hangs, or does "
        "something else");
}

TEST_CASE("more memory than the machine has is refused by name", "[host]") {
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  const auto s = make_streams((*runtime)->seam());
  REQUIRE(s.ok());
  const auto view = numbers((*runtime)->seam(), *s, std::int64_t{1} << 50);
  CHECK(view.status().code() == Code::out_of_memory);
  CHECK(view.status().message().find(
            "rank 0 has no room for the 4503599627370496 bytes of numbers") == 0);
}

}  // namespace
}  // namespace tessera
