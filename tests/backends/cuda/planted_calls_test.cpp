// SPDX-License-Identifier: Apache-2.0
// Faults of an engine or a program, planted between it and the backend, and calls of NCCL that it
// would get wrong: each is found, under its right name.
#include <array>
#include <functional>

#include "tests/backends/cuda/every_call.h"
#include "tests/backends/cuda/faulty_training.h"
#include "tests/backends/host/listing_runtime.h"

namespace tessera {
namespace {

using test::Call;
using test::CollectiveCall;
using test::CollectiveKind;
using test::ListingRuntime;
using test::Outcome;
using test::PlantedFault;
using test::StandIn;
using test::StandInOptions;

// Something is changed in the `use`-th call that it applies to.
class FaultyRuntime final : public ListingRuntime {
 public:
  enum class Fault { early_release, stale_prefetch, one_missing, wrong_dtype };

  FaultyRuntime(Runtime& backend, Fault fault, int use, bool& planted)
      : ListingRuntime(backend, lines_), fault_(fault), use_(use), planted_(planted) {}

  Status release(BufferId buffer, EventId after, const RankSet& where) override {
    const bool early = after.valid() && strikes(Fault::early_release);
    return ListingRuntime::release(buffer, early ? EventId{} : after, where);
  }
  Result<EventId> submit(const Op& op) override {
    Op changed = op;
    const auto* wait = std::get_if<Wait>(&op.what);
    const bool waits = !op.after.empty() || (wait != nullptr && wait->stream.valid());
    if (waits && strikes(Fault::stale_prefetch)) {
      changed.after = {};
      if (wait != nullptr) changed.what = Wait{op.stream};
    }
    if (auto* reduce = std::get_if<ReduceScatter>(&changed.what)) {
      if (strikes(Fault::one_missing)) reduce->output.numel -= Numel{1};
      if (strikes(Fault::wrong_dtype)) reduce->output.dtype = DType::bfloat16;
    }
    return ListingRuntime::submit(changed);
  }

 private:
  bool strikes(Fault fault) {
    const bool now = fault == fault_ && --use_ == 0;
    planted_ = planted_ || now;
    return now;
  }

  std::vector<std::string> lines_;
  const Fault fault_;
  int use_;
  bool& planted_;
};

// How many of all the places where it can be planted were found to be `words`; in all others
// nothing changed.
int found_as(FaultyRuntime::Fault fault, const std::string& words) {
  int found = 0;
  for (int use = 1;; use += test::place_distance) {
    bool planted = false;
    const Outcome outcome =
        test::train_with({}, [&](Runtime& backend, Rank) -> std::unique_ptr<Runtime> {
          return std::make_unique<FaultyRuntime>(backend, fault, use, planted);
        });
    if (!planted) return found;
    INFO("use " << use << ": " << outcome.statuses[0].message());
    CHECK(outcome.reports.empty());
    CHECK((outcome.somebody_says(words) || (outcome.silent() && outcome.same_numbers)));
    CHECK(outcome.leaks.empty());
    found += outcome.somebody_says(words) ? 1 : 0;
  }
}

TEST_CASE("memory that is given back too early is a hazard", "[cuda]") {
  CHECK(found_as(FaultyRuntime::Fault::early_release, "is released") >= 10 / test::place_distance);
}

TEST_CASE("a module that does not wait for its prefetch is a hazard", "[cuda]") {
  CHECK(found_as(FaultyRuntime::Fault::stale_prefetch, "a wait is missing") >=
        10 / test::place_distance);
}

TEST_CASE("shards of the wrong size or dtype are refused before they move", "[cuda]") {
  CHECK(found_as(FaultyRuntime::Fault::one_missing, "do not make a buffer of") >= 1);
  CHECK(found_as(FaultyRuntime::Fault::wrong_dtype, "the shard is bfloat16") >= 1);
}

// The program that calls everything, with one thing wrong.
Outcome call_with(StandInOptions options) {
  options.ranks = test::faulty_ranks;
  options.seed = 5;
  StandIn world(options);
  test::RecordedTrace trace;
  CudaOptions cuda = test::every_call_options(trace);
  cuda.deadline = 3'000'000'000;
  Outcome outcome;
  outcome.statuses = test::run_on(world, test::every_call, cuda);
  for (const std::string& report : world.reports()) outcome.reports += report + "\n";
  outcome.leaks = world.leaks();
  return outcome;
}

Outcome call_without(Call call, int use = 1) {
  return call_with({.fault = PlantedFault{call, 1, use, 0, /*dropped=*/true}});
}

Outcome tamper(CollectiveKind kind, const std::function<void(CollectiveCall&)>& change) {
  StandInOptions options;
  options.tamper = [=](int rank, int, CollectiveCall& call) {
    if (call.kind == kind && rank == 1) change(call);
  };
  return call_with(options);
}

TEST_CASE("a rank that sends to the wrong one, or too much, is named", "[cuda]") {
  SECTION("another root") {
    CHECK(tamper(CollectiveKind::broadcast, [](CollectiveCall& c) {
            c.root = 1;
          }).reports_say("root 1"));
  }
  SECTION("another length") {
    CHECK(tamper(CollectiveKind::exchange, [](CollectiveCall& c) {
            c.sends[0].bytes -= 4;
          }).reports_say("what index 1 sends to index 0 is not what that expects"));
  }
  SECTION("nobody's letter") {
    CHECK(tamper(CollectiveKind::exchange, [](CollectiveCall& c) {
            c.sends.erase(0);
          }).reports_say("what index 1 sends to index 0 is not what that expects"));
  }
  SECTION("a message outside of a group") {
    CHECK(call_without(Call::group_start).reports_say("a message outside of a group"));
  }
}

TEST_CASE("two ranks on one GPU are refused", "[cuda]") {
  const Outcome outcome = call_without(Call::set_device);
  CHECK(outcome.somebody_says("ncclCommInitRankConfig failed: code 5"));
}

TEST_CASE("an operator that was never made is not used", "[cuda]") {
  const Outcome outcome = call_without(Call::red_op_create_pre_mul_sum);
  std::string all = outcome.reports;
  for (const Status& status : outcome.statuses) all += status.message() + "\n";
  INFO(all);
  // Whoever comes first: the rank that destroys it, or the peer whose operator is another one.
  CHECK((outcome.somebody_says("ncclRedOpDestroy failed") || outcome.reports_say("op 0 x 1")));
}

TEST_CASE("what is not unmade is left behind", "[cuda]") {
  CHECK(call_without(Call::comm_finalize).reports_say("that was not finalized"));
  CHECK(call_without(Call::red_op_destroy).reports_say("whose operators were not destroyed"));
  for (Call call :
       {Call::stream_destroy, Call::event_destroy, Call::mem_release, Call::free_host}) {
    INFO("call " << static_cast<int>(call));
    CHECK_FALSE(call_without(call).leaks.empty());
  }
}

// Each rank orders its own streams; the two of them wait for each other for ever.
TEST_CASE("communicators that ranks use in another order end at the deadline, by name", "[cuda]") {
  StandIn world({.ranks = 2, .seed = 5});
  const auto statuses = test::run_on(
      world,
      [](ProcessRuntime& host, Rank rank) -> Status {
        Runtime& runtime = host;
        TESSERA_ASSIGN(const auto all, RankGroups::strided(2, 2));
        std::array<StreamId, 2> streams;
        std::array<CommunicatorId, 2> communicators;
        for (std::size_t i = 0; i < 2; ++i) {
          TESSERA_ASSIGN(streams[i], runtime.create_stream("s", StreamRole::communication));
          TESSERA_ASSIGN(communicators[i], runtime.create_communicator(all, "all"));
        }
        for (std::size_t k = 0; k < 2; ++k) {
          const std::size_t i = rank == 0 ? k : 1 - k;
          TESSERA_ASSIGN(const BufferId buffer, runtime.allocate({.bytes = Bytes{8},
                                                                  .stream = streams[i],
                                                                  .where = runtime.world(),
                                                                  .name = "numbers"}));
          const View view = View::whole(buffer, DType::float32, Numel{2});
          const auto submit = [&](decltype(Op::what) what) {
            return runtime
                .submit({.stream = streams[i],
                         .where = runtime.world(),
                         .cause = {.unit = "here"},
                         .what = std::move(what)})
                .status();
          };
          TESSERA_TRY(submit(Compute{.writes = {view}, .zeroed = {0}}));
          TESSERA_TRY(submit(AllReduce{communicators[i], view, view}));
        }
        return host.finish();
      },
      {.deadline = 3'000'000'000});
  for (const Status& status : statuses) {
    INFO(status.message());
    CHECK_FALSE(status.ok());
    CHECK(status.message().find("waited 3.0 s for the all_reduce of unit here") !=
          std::string::npos);
  }
  CHECK(world.leaks().empty());
}

}  // namespace
}  // namespace tessera
