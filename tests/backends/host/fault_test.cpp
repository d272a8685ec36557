// SPDX-License-Identifier: Apache-2.0
// What all ranks say when one of them does something else, goes away, hangs or fails.
#include <chrono>

#include "tests/backends/host/small_program.h"
#include "tests/backends/host/thread_ranks.h"
#include "tests/random.h"

namespace tessera {
namespace {

using namespace tessera::test;
using Statuses = std::vector<Status>;
using Catch::Matchers::Contains;

Time real_time() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// One collective of a host program.
struct Call {
  std::string unit;
  std::int64_t numel = 1;
  bool broadcasts = false;
};

Status call_all(ProcessRuntime& host, const std::vector<Call>& calls) {
  Runtime& runtime = host;
  TESSERA_ASSIGN(const Streams s, make_streams(runtime));
  TESSERA_ASSIGN(const View all, numbers(runtime, s, 100));
  for (const Call& call : calls) {
    View part = all;
    part.numel = part.end = Numel{call.numel};
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(part, 1))).status());
    Op op = on(runtime, s.communication, Wait{s.compute});
    op.cause.unit = call.unit;
    TESSERA_TRY(runtime.submit(op).status());
    if (call.broadcasts) {
      op.what = Broadcast{s.world, part};
    } else {
      op.what = AllReduce{s.world, part, part, Reduction::sum};
    }
    TESSERA_TRY(runtime.submit(op).status());
    op = on(runtime, s.compute, Wait{s.communication});
    TESSERA_TRY(runtime.submit(op).status());
  }
  TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(all, 1))).status());
  return host.finish();
}

const std::vector<Call> program = {{"a", 3}, {"b", 7}, {"c", 7}, {"d", 2}, {"e", 5}};

// All ranks call `program`, but rank 1 of 3 calls `other`.
Statuses differing(const std::vector<Call>& other, const HostOptions& options = {}) {
  return on_threads(3, options, [&other](ProcessRuntime& host, Rank rank) {
    return call_all(host, rank == 1 ? other : program);
  });
}

void check_all(const Statuses& statuses, Code code, const std::string& message) {
  for (std::size_t rank = 0; rank < statuses.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(statuses[rank].code() == code);
    CHECK(statuses[rank].message() == message);
  }
}

constexpr const char* advice =
    "; all ranks must run the same program with the same model and options";

// The communicator of `make_streams` is collective 1.
TEST_CASE("another order of collectives is named on all ranks", "[host][faults]") {
  auto other = program;
  std::swap(other[1], other[2]);
  check_all(
      differing(other), Code::divergent,
      std::string("ranks differ at collective 3: rank 0 calls all_reduce of 7 float32 of unit "
                  "b on communicator 0, rank 1 calls all_reduce of 7 float32 of unit c on "
                  "communicator 0") +
          advice);
}

TEST_CASE("another size is named on all ranks", "[host][faults]") {
  auto other = program;
  other[3].numel = 9;
  check_all(
      differing(other), Code::divergent,
      std::string("ranks differ at collective 5: rank 0 calls all_reduce of 2 float32 of unit "
                  "d on communicator 0, rank 1 calls all_reduce of 9 float32 of unit d on "
                  "communicator 0") +
          advice);
}

TEST_CASE("another kind of collective is named on all ranks", "[host][faults]") {
  auto other = program;
  other[0].broadcasts = true;
  check_all(
      differing(other), Code::divergent,
      std::string("ranks differ at collective 2: rank 0 calls all_reduce of 3 float32 of unit "
                  "a on communicator 0, rank 1 calls broadcast of 3 float32 of unit a on "
                  "communicator 0 with root 0") +
          advice);
}

TEST_CASE("one collective less, and one more, are named on all ranks", "[host][faults]") {
  auto other = program;
  other.pop_back();
  check_all(
      differing(other), Code::divergent,
      std::string("ranks differ at collective 6: rank 0 calls all_reduce of 5 float32 of unit "
                  "e on communicator 0, rank 1 calls end of the run") +
          advice);
  other = program;
  other.push_back({"more", 4});
  check_all(differing(other), Code::divergent,
            std::string("ranks differ at collective 7: rank 0 calls end of the run, rank 1 calls "
                        "all_reduce of 4 float32 of unit more on communicator 0") +
                advice);
}

TEST_CASE("500 random programs: equal ones end well, one difference is found",
          "[host][faults][long]") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Random random(seed);
    std::vector<Call> calls(static_cast<std::size_t>(1 + random.below(40)));
    for (Call& call : calls) {
      call = {std::string(1, static_cast<char>('a' + random.below(3))), 1 + random.below(3),
              random.chance(30)};
    }
    const Rank ranks = static_cast<Rank>(2 + random.below(3));
    require_all_ok(
        on_threads(ranks, {}, [&](ProcessRuntime& host, Rank) { return call_all(host, calls); }));
    if (seed % 5 != 0) continue;
    const auto odd = static_cast<Rank>(random.below(ranks));
    const auto place =
        static_cast<std::size_t>(random.below(static_cast<std::int64_t>(calls.size())));
    auto other = calls;
    other[place].unit += "x";
    const Statuses found = on_threads(ranks, {}, [&](ProcessRuntime& host, Rank rank) {
      return call_all(host, rank == odd ? other : calls);
    });
    for (const Status& status : found) {
      CHECK(status.code() == Code::divergent);
      CHECK_THAT(status.message(),
                 Contains("ranks differ at collective " + std::to_string(place + 2) + ": "));
      CHECK_THAT(status.message(), Contains("of unit " + other[place].unit + " on"));
    }
  }
}

TEST_CASE("a rank that leaves in the middle ends the others at once", "[host][faults]") {
  const Statuses statuses = on_threads(3, {}, [](ProcessRuntime& host, Rank rank) {
    return rank == 1 ? Status{} : call_all(host, program);
  });
  CHECK(statuses[1].ok());
  for (const Rank rank : {0, 2}) {
    CHECK(statuses[static_cast<std::size_t>(rank)].message() ==
          "rank 1 gave up: it ended its run before it was finished");
  }
}

TEST_CASE("a rank that fails tells all others why", "[host][faults]") {
  const Rank failing = GENERATE(0, 1, 2);
  const Statuses statuses = on_threads(3, {}, [&](ProcessRuntime& host, Rank rank) {
    return rank == failing ? Status(Code::io_error, "disk full") : call_all(host, program);
  });
  for (Rank rank = 0; rank < 3; ++rank) {
    const Status& status = statuses[static_cast<std::size_t>(rank)];
    const std::string prefix =
        rank == failing ? "" : "rank " + std::to_string(failing) + " gave up: ";
    CHECK(status.message() == prefix + "disk full");
  }
}

// Hangs in its program, outside of the runtime, until the others are done.
TEST_CASE("a silent rank ends the others at the deadline, by name", "[host][faults]") {
  const Rank silent = GENERATE(0, 1);
  const HostOptions options{.clock = real_time, .deadline = 1'000'000'000};
  std::atomic<int> done{0};
  const Time start = real_time();
  const Statuses statuses = on_threads(3, options, [&](ProcessRuntime& host, Rank rank) -> Status {
    if (rank != silent) {
      Status status = call_all(host, program);
      ++done;
      return status;
    }
    TESSERA_TRY(make_streams(host).status());
    while (done < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return call_all(host, program);
  });
  CHECK(real_time() - start < 20 * options.deadline);  // far less, on a machine that is not loaded
  const std::string end = silent == 0 ? ": rank 0 does not answer" : ": rank 1 is silent for ";
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::timed_out);
    CHECK_THAT(status.message(), Contains("waited 1.0 s for collective 2, all_reduce of 3 float32 "
                                          "of unit a on communicator 0" +
                                          end));
    CHECK(status.message() == statuses[0].message());
  }
}

TEST_CASE("a body that does not come back is reported from outside", "[host][faults]") {
  std::atomic<bool> reported{false};
  std::string why;
  HostOptions options{.clock = real_time, .deadline = 50'000'000};
  options.on_hang = [&](const std::string& text) {
    why = text;
    reported = true;
  };
  require_all_ok(on_threads(1, options, [&](ProcessRuntime& host, Rank) -> Status {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View x, numbers(runtime, s, 1));
    Compute hangs = fill(x, 1);
    hangs.body = [&](const BodyContext&) {
      while (!reported) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, hangs)).status());
    return host.finish();
  }));
  CHECK_THAT(why, Contains("rank 0 hangs: it is inside of the compute of unit here for 0."));
}

TEST_CASE("a rank that waits can be told to stop", "[host][faults]") {
  HostOptions options;
  std::atomic<bool> asked{false};  // by a rank that waits
  options.interrupted = [&] {
    asked = true;
    return true;
  };
  const Statuses statuses = on_threads(2, options, [&](ProcessRuntime& host, Rank rank) {
    while (rank == 1 && !asked) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return call_all(host, program);
  });
  for (const Status& status : statuses) {
    CHECK(status.code() == Code::cancelled);
    CHECK_THAT(status.message(), Contains("was told to stop while it waited"));
  }
}

}  // namespace
}  // namespace tessera
