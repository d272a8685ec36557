// SPDX-License-Identifier: Apache-2.0
// When a ProcessRuntime carries out what was submitted.
#include "tests/backends/host/small_program.h"
#include "tests/backends/host/thread_ranks.h"

namespace tessera {
namespace {

using namespace tessera::test;

TEST_CASE("a collective does not stop the host until somebody needs its result", "[host]") {
  // Rank 1 submits its part only after rank 0 has gone on to compute.
  std::atomic<bool> computed{false};
  const HostOptions options{.clock = patient_clock(), .deadline = 500'000'000'000};
  test::require_all_ok(test::on_threads(2, options, [&](ProcessRuntime& host, Rank rank) -> Status {
    Runtime& runtime = host;
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
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(sum, 0))).status());  // it was used
    return value == 3 ? host.finish() : Status(Code::corrupt, "a wrong sum");
  }));
}

TEST_CASE("a body that polls runs once", "[host]") {
  int runs = 0;
  test::require_all_ok(test::on_threads(1, {}, [&runs](ProcessRuntime& host, Rank) -> Status {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View x, numbers(runtime, s, 1));
    Compute polls = fill(x, 1);
    polls.body = [&](const BodyContext&) {
      ++runs;
      if (runs < 5) CHECK(host.poll().ok());
    };
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, polls)).status());
    return host.finish();
  }));
  CHECK(runs == 1);
}

TEST_CASE("values that differ between ranks are seen by all of them", "[host]") {
  test::require_all_ok(test::on_threads(3, {}, [](ProcessRuntime& host, Rank) -> Status {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View x, numbers(runtime, s, 1));
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(x, 4))).status());
    TESSERA_ASSIGN(const auto all, runtime.read(x));
    if (all.uniform("x").ok()) return Status(Code::corrupt, "ranks agree");
    return all[2] == 6 ? host.finish() : Status(Code::corrupt, "rank 2 has another value");
  }));
}

TEST_CASE("more memory than the machine has is refused by name", "[host]") {
  auto runtime = make_local_runtime({});
  REQUIRE(runtime.ok());
  const auto s = make_streams(**runtime);
  REQUIRE(s.ok());
  const auto view = numbers(**runtime, *s, std::int64_t{1} << 50);
  CHECK(view.status().code() == Code::out_of_memory);
  CHECK(view.status().message().find(
            "rank 0 has no room for the 4503599627370496 bytes of numbers") == 0);
}

}  // namespace
}  // namespace tessera
