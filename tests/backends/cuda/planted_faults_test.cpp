// SPDX-License-Identifier: Apache-2.0
// What goes wrong on real machines, planted one by one: each is found, under its right name.
#include <functional>

#include "tests/backends/cuda/faulty_training.h"

namespace tessera {
namespace {

using test::Call;
using test::CollectiveCall;
using test::CollectiveKind;
using test::drop;
using test::faulty_ranks;
using test::Outcome;
using test::PlantedFault;
using test::StandInOptions;
using test::train_with;

// Changes the `use`-th collective of a kind, on rank 1 or on both.
Outcome tamper(CollectiveKind kind, bool both, const std::function<void(CollectiveCall&)>& change) {
  StandInOptions options;
  options.tamper = [=](int rank, int use, CollectiveCall& call) {
    if (call.kind == kind && use == 2 && (both || rank == 1)) change(call);
  };
  return train_with(options);
}

TEST_CASE("without a fault nobody says anything", "[cuda]") {
  const Outcome outcome = train_with({});
  CHECK(outcome.silent());
  CHECK(outcome.leaks.empty());
  CHECK(outcome.same_numbers);
}

TEST_CASE("a wait that is missing is a race, whatever the timing was", "[cuda]") {
  int found = 0;
  for (int use = 1; use <= 40; ++use) {
    const Outcome outcome = drop(Call::stream_wait_event, use);
    INFO("wait " << use << ": " << outcome.reports);
    CHECK((outcome.same_numbers || outcome.reports_say("race: ")));
    found += outcome.reports_say("no wait orders them") ? 1 : 0;
  }
  CHECK(found >= 20);  // the others repeat what an earlier wait has said
}

TEST_CASE("an event that was never recorded orders nothing", "[cuda]") {
  int races = 0;
  int wrong = 0;  // where only the host waits, whose own accesses no device sees
  for (int use = 1; use <= 40; ++use) {
    const Outcome outcome = drop(Call::event_record, use);
    races += outcome.reports_say("race: ") ? 1 : 0;
    wrong += outcome.same_numbers ? 0 : 1;
  }
  CHECK(races >= 8);
  CHECK(wrong >= 2);
}

TEST_CASE("ranks that disagree about a collective are told how", "[cuda]") {
  const auto ends = [](const Outcome& outcome, const std::string& words) {
    INFO(outcome.reports << outcome.statuses[0].message());
    CHECK(outcome.reports_say("collective "));
    CHECK(outcome.reports_say(words));
    CHECK(outcome.somebody_says("failed: code 5"));
    CHECK_FALSE(outcome.statuses[0].ok());
    CHECK_FALSE(outcome.statuses[1].ok());
    CHECK(outcome.leaks.empty());
  };
  SECTION("off by one") {
    ends(tamper(CollectiveKind::all_gather, false, [](CollectiveCall& c) { --c.count; }),
         "all_gather of ");
  }
  SECTION("another dtype") {
    ends(tamper(CollectiveKind::reduce_scatter, false,
                [](CollectiveCall& c) { c.type = NcclType::bfloat16; }),
         "type 9");
  }
  SECTION("a sum instead of an average") {
    ends(tamper(CollectiveKind::reduce_scatter, false,
                [](CollectiveCall& c) { c.op = NcclOp::sum; }),
         "op 0");
  }
  SECTION("another collective") {
    ends(tamper(CollectiveKind::reduce_scatter, false,
                [](CollectiveCall& c) { c.kind = CollectiveKind::all_gather; }),
         "for reduce_scatter of");
  }
  SECTION("one that a rank leaves out") { ends(drop(Call::all_gather, 2), "asks for "); }
}

TEST_CASE("in place at another rank's part is reported", "[cuda]") {
  const Outcome outcome = tamper(CollectiveKind::all_gather, false, [](CollectiveCall& c) {
    c.in -= c.count * 4;  // rank 1 at the part of rank 0
  });
  INFO(outcome.reports);
  CHECK(outcome.reports_say("in place, but not at the rank's own part"));
}

TEST_CASE("what all ranks do wrong alike shows in the numbers", "[cuda]") {
  SECTION("averaged twice") {
    CHECK_FALSE(tamper(CollectiveKind::reduce_scatter, true, [](CollectiveCall& c) {
                  c.factor = 0.5F;
                }).same_numbers);
  }
  SECTION("the last element is left out") {
    CHECK_FALSE(tamper(CollectiveKind::reduce_scatter, true, [](CollectiveCall& c) {
                  --c.count;
                }).same_numbers);
  }
  SECTION("a kernel that did not run") { CHECK_FALSE(drop(Call::kernel, 3).same_numbers); }
  SECTION("copies that did not run") {
    int seen = 0;
    for (int use = 1; use <= 6; ++use) seen += drop(Call::cast_blocks, use).same_numbers ? 0 : 1;
    CHECK(seen >= 3);
  }
  SECTION("memory that was not zeroed") { CHECK_FALSE(drop(Call::memset_async, 1).same_numbers); }
}

TEST_CASE("a host that does not wait sees what is not there yet", "[cuda]") {
  int found = 0;
  for (int use = 1; use <= 30; ++use) {
    const Outcome outcome = drop(Call::event_query, use);
    found += outcome.silent() && outcome.same_numbers ? 0 : 1;
  }
  CHECK(found >= 3);
}

TEST_CASE("memory that was not mapped is not touched unseen", "[cuda]") {
  CHECK(drop(Call::mem_map, 2).somebody_says("cuMemSetAccess failed"));
  CHECK(drop(Call::mem_set_access, 2).reports_say("touches memory that is not there"));
}

TEST_CASE("communicators that are not aborted are left behind", "[cuda]") {
  StandInOptions options;
  options.ranks = faulty_ranks;
  options.seed = 5;
  options.fault = PlantedFault{Call::comm_abort, 0, 1, 0, /*dropped=*/true};
  options.tamper = [](int rank, int use, CollectiveCall& call) {
    if (rank == 1 && use == 2) ++call.count;
  };
  CHECK(train_with(options).leaks.find("1 communicators") != std::string::npos);
}

TEST_CASE("a rank that nobody hears failing ends the others at the deadline, by name", "[cuda]") {
  const Outcome outcome =
      train_with({.seed = 5, .fault = PlantedFault{Call::all_gather, 1, 3, 6}, .deaf = true});
  CHECK(outcome.statuses[1].message().starts_with("ncclAllGather failed: code 6"));
  CHECK(outcome.statuses[0].code() == Code::timed_out);
  INFO(outcome.statuses[0].message());
  CHECK(outcome.statuses[0].message().starts_with("rank 0 waited 3.0 s for the all_gather of "));
  CHECK(outcome.leaks.empty());
}

TEST_CASE("a device that is full says what it had no room for", "[cuda]") {
  const Outcome outcome = train_with({.device_bytes = std::size_t{2} << 20});
  INFO(outcome.statuses[0].message());
  CHECK(outcome.somebody_says("has no room for the "));
  CHECK(outcome.statuses[0].code() != Code::ok);
  CHECK(outcome.leaks.empty());
}

}  // namespace
}  // namespace tessera
