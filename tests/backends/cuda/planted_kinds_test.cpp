// SPDX-License-Identifier: Apache-2.0
// Faults of every kind that real devices, drivers and NCCL have and a naive stand-in hides, planted
// one by one: each is found, under its name, and no run is without end. Nobody raises an alarm
// where there is none. What kernels alone can do wrong is in
// tests/training/kernels/card_limits_test.cpp.
#include "tests/backends/cuda/every_call.h"
#include "tests/backends/cuda/faulty_training.h"
#include "tests/backends/cuda/file_scene.h"
#include "tests/backends/cuda/peer_scene.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

using test::Call;
using test::CollectiveCall;
using test::CollectiveKind;
using test::DriveHabits;
using test::FileScene;
using test::many;
using test::Outcome;
using test::PeerScene;
using test::PlantedFault;
using test::StandIn;
using test::StandInOptions;
using test::train_with;

constexpr int always = PlantedFault::every_use;

Outcome outcome_of(StandIn& world, std::vector<Status> statuses) {
  Outcome outcome;
  outcome.statuses = std::move(statuses);
  for (const std::string& report : world.reports()) outcome.reports += report + "\n";
  outcome.leaks = world.leaks();
  return outcome;
}

struct Planted {
  const char* kind;
  const char* what;
  std::function<Outcome()> run;
  const char* found_as;
};

// --- What runs.

// Two splits of the world by two ranks.
Outcome split(PlantedFault fault, bool deaf = false) {
  StandIn world({.ranks = 2, .seed = 5, .fault = fault, .deaf = deaf});
  return outcome_of(
      world, test::run_on(world,
                          [](ProcessRuntime& host, Rank) -> Status {
                            for (const Index size : {2, 1}) {
                              TESSERA_ASSIGN(const auto groups, RankGroups::strided(2, size));
                              TESSERA_TRY(host.create_communicator(groups, "axis").status());
                            }
                            return host.finish();
                          },
                          {.deadline = 3'000'000'000}));
}

// Everything that the tables have, with windows, graphs and files.
Outcome everything(StandInOptions options) {
  options.ranks = 2;
  options.seed = 5;
  StandIn world(options);
  test::RecordedTrace trace;
  CudaOptions cuda = test::every_call_options(trace);
  cuda.deadline = 3'000'000'000;
  return outcome_of(world, test::run_on(world, test::every_call, cuda));
}

Outcome everything_with(PlantedFault fault, bool deaf = false) {
  return everything({.fault = fault, .deaf = deaf});
}

Outcome tampered(CollectiveKind kind, const std::function<void(CollectiveCall&)>& change) {
  StandInOptions options;
  options.tamper = [=](int, int, CollectiveCall& call) {
    if (call.kind == kind) change(call);
  };
  return everything(options);
}

// Rank 1 dies before the all_reduce; rank 0 does something behind it.
Outcome dead_peer(const std::function<Status(PeerScene&)>& then, StandInOptions options = {}) {
  options.ranks = 2;
  options.seed = 5;
  options.deaf = true;
  StandIn world(options);
  return outcome_of(world, test::run_dead_peer(world, then));
}

Status halve(PeerScene& scene) {
  return scene.work([](const BodyContext& c) {
    c.kernels().divide({c.write(0), DType::float32}, 2);
  });
}
Status halve_often(PeerScene& scene) {
  for (int k = 0; k < 3'000; ++k) TESSERA_TRY(halve(scene));
  return {};
}
Status write_many(PeerScene& scene) {
  return scene.work([](const BodyContext& c) {
    const std::vector<float> ones(static_cast<std::size_t>(many.value), 1);
    c.kernels().write(ones, {c.write(0), DType::float32});
  });
}
Status grow(PeerScene& scene) { return scene.allocate(Memory::device, many).status(); }

// A backend that never waits: whatever it asks the device has happened.
StandInOptions impatient(bool loads_lazily = false) {
  return {.fault = PlantedFault{Call::event_query, 0, always, 0, /*dropped=*/true},
          .loads_lazily = loads_lazily};
}

// Both ranks are alive, and rank 1 goes on in another thread.
Outcome in_another_thread(PlantedFault fault) {
  StandIn world({.ranks = 2, .seed = 5, .fault = fault});
  return outcome_of(world, test::run_on(world,
                                        [](ProcessRuntime& host, Rank rank) -> Status {
                                          PeerScene scene(host, "");
                                          TESSERA_TRY(scene.setup());
                                          Status outcome;
                                          const auto work = [&] { outcome = scene.all_reduce(); };
                                          rank == 0 ? work() : std::thread(work).join();
                                          TESSERA_TRY(outcome);
                                          return host.finish();
                                        },
                                        {.deadline = 3'000'000'000}));
}

Outcome files(DriveHabits habits, bool direct, StandInOptions options,
              const std::function<Status(FileScene&)>& work) {
  options.seed = 5;
  StandIn world(options);
  const auto ended = test::run_scene(world, habits,
                                     [&](FileScene& scene, ProcessRuntime& host) -> Status {
                                       TESSERA_TRY(work(scene));
                                       return host.finish();
                                     },
                                     {.use_gds = direct});
  return outcome_of(world, ended.statuses);
}

Status write_and_work(FileScene& scene) {
  TESSERA_TRY(scene.write().status());
  TESSERA_TRY(scene.wait_for_files());
  return scene.twice().status();
}
Status write_and_work_often(FileScene& scene) {
  TESSERA_TRY(write_and_work(scene));
  for (int k = 0; k < 3'000; ++k) TESSERA_TRY(scene.twice().status());
  return {};
}
Status write_and_read(FileScene& scene) {
  TESSERA_TRY(scene.write().status());
  return scene.read().status();
}
Status write_and_read_direct(FileScene& scene) {
  TESSERA_TRY(scene.write_direct().status());
  return scene.read_direct().status();
}

PlantedFault fails(Call call, int code, int use = 1) { return {call, 1, use, code}; }
PlantedFault fails_late(Call call, int code) {
  return {.call = call, .rank = 1, .code = code, .late = true};
}
PlantedFault left_out(Call call, int use = 1) { return {call, 1, use, 0, /*dropped=*/true}; }
PlantedFault breaks(Call call, int use) {
  return {.call = call, .rank = 1, .use = use, .code = 719, .stays = true};
}
PlantedFault takes(Call call, Time time) {
  return {.call = call, .rank = 1, .use = 2, .slow = time};
}

std::vector<Planted> late_answers() {
  const char* const kind = "answers that come later";
  return {
      {kind, "a world that a rank never enters",
       [] { return split(fails(Call::comm_init_rank, 3), true); },
       "waited 3.0 s for ncclCommInitRankConfig"},
      {kind, "a world that fails while it is made",
       [] { return split(fails_late(Call::comm_init_rank, 6)); },
       "ncclCommInitRankConfig failed: code 6"},
      {kind, "a split that fails", [] { return split(fails(Call::comm_split, 5)); },
       "ncclCommSplit failed: code 5"},
      {kind, "a split that fails while it is made",
       [] { return split(fails_late(Call::comm_split, 5)); }, "ncclCommSplit failed: code 5"},
      {kind, "a split that a rank never comes to",
       [] { return split(fails(Call::comm_split, 5, 2), true); }, "waited 3.0 s for ncclCommSplit"},
      {kind, "nobody looks whether a split is done",
       [] {
         return split({Call::comm_get_async_error, 1, always, 0, true});
       },
       "ncclCommSplit"},
      {kind, "a window that fails",
       [] { return everything_with(fails(Call::comm_window_register, 5)); },
       "ncclCommWindowRegister failed: code 5"},
      {kind, "a window that fails while it is registered",
       [] { return everything_with(fails_late(Call::comm_window_register, 6)); }, "failed: code 6"},
      {kind, "a window that a rank never registers",
       [] { return everything_with(fails(Call::comm_window_register, 5), true); },
       "waited 3.0 s for ncclCommWindowRegister"},
      {kind, "a collective that fails after it was taken",
       [] { return everything_with(fails_late(Call::all_gather, 6)); }, "failed: code 6"},
      {kind, "communicators that are not finalized",
       [] { return everything_with(left_out(Call::comm_finalize)); }, "that was not finalized"},
  };
}

std::vector<Planted> full_queues_and_stops() {
  const char* const queue = "queues of a thousand entries";
  const char* const stop = "calls that wait for the device";
  const char* const all_reduce = "waited 3.0 s for the all_reduce of unit here";
  return {
      {queue, "a dead peer", [] { return dead_peer(halve_often); }, all_reduce},
      {queue, "a dead peer, and a backend that never waits",
       [] { return dead_peer(halve_often, impatient()); }, "is full and its device stands still"},
      {queue, "a drive that hangs",
       [] { return files({.stands = true}, false, {}, write_and_work_often); },
       "waited 3.0 s for the copy of unit here"},
      {stop, "pinning memory behind a dead peer", [] { return dead_peer(write_many); }, all_reduce},
      {stop, "pinning memory, and a backend that never waits",
       [] { return dead_peer(write_many, impatient()); }, "pinning memory waits for a device"},
      {stop, "more memory behind a dead peer", [] { return dead_peer(grow); }, all_reduce},
      {stop, "more memory, and a backend that never waits",
       [] { return dead_peer(grow, impatient()); }, "giving access to memory waits for a device"},
      {stop, "a kernel's first launch behind a dead peer",
       [] { return dead_peer(halve, {.loads_lazily = true}); }, all_reduce},
      {stop, "a kernel's first launch, and a backend that never waits",
       [] { return dead_peer(halve, impatient(true)); }, "waits for a device that stands still"},
      {stop, "a kernel's first launch behind a drive that hangs",
       [] { return files({.stands = true}, false, {.loads_lazily = true}, write_and_work); },
       "for a drive that moved no block"},
  };
}

std::vector<Planted> places_and_threads() {
  const char* const window = "windows by their start";
  const char* const thread = "each thread's device";
  const char* const capture = "streams that are recorded";
  return {
      {window, "a collective that leaves its window",
       [] {
         return tampered(CollectiveKind::all_reduce, [](CollectiveCall& c) { c.count <<= 23; });
       },
       "begins in a window and ends behind it"},
      {window, "ranks whose numbers lie elsewhere",
       [] {
         return everything({.tamper = [](int rank, int, CollectiveCall& c) {
           if (c.kind == CollectiveKind::reduce_scatter && rank == 1) c.in -= 256;
         }});
       },
       "window 1 + "},
      {window, "windows that are left",
       [] { return everything_with(left_out(Call::comm_window_deregister)); },
       "whose windows were not deregistered"},
      {thread, "two ranks on one device", [] { return split(left_out(Call::set_device)); },
       "ncclCommInitRankConfig failed: code 5"},
      {thread, "another thread that is not told its device",
       [] { return in_another_thread(left_out(Call::set_device, 2)); },
       "work for a stream of another device than the thread's"},
      {capture, "a recording that never began",
       [] { return everything_with(left_out(Call::stream_begin_capture)); },
       "cudaStreamEndCapture failed"},
      {capture, "a graph that cannot be made",
       [] { return everything_with(fails(Call::graph_instantiate, 2)); },
       "cudaGraphInstantiate failed: code 2"},
  };
}

std::vector<Planted> broken_and_slow() {
  const char* const broken = "errors that stay";
  const char* const slow = "slow calls and peers";
  const char* const code = "failed: code 719";
  return {
      {broken, "from a kernel on", [] { return train_with({.fault = breaks(Call::kernel, 4)}); },
       code},
      {broken, "from a copy on",
       [] { return train_with({.fault = breaks(Call::memcpy_async, 3)}); }, code},
      {broken, "from a look at an event on",
       [] { return train_with({.fault = breaks(Call::event_query, 9)}); }, code},
      {broken, "from a collective on",
       [] { return train_with({.fault = breaks(Call::all_gather, 2)}); }, code},
      {broken, "from more memory on",
       [] { return train_with({.fault = breaks(Call::mem_create, 2)}); }, code},
      {broken, "from an access to memory that is not there",
       [] { return train_with({.fault = left_out(Call::mem_set_access, 2)}); },
       "touches memory that is not there"},
      {slow, "a peer that stops for ten seconds",
       [] { return train_with({.fault = takes(Call::all_gather, 10'000'000'000)}); },
       "rank 0 waited 3.0 s for the "},
      {slow, "a peer that stops while it makes a communicator",
       [] { return split(takes(Call::comm_split, 10'000'000'000)); },
       "rank 0 waited 3.0 s for ncclCommSplit"},
      {slow, "a drive that fails", [] { return files({.error = EIO}, false, {}, write_and_read); },
       "Input/output error"},
      {slow, "a drive that damages what it reads",
       [] { return files({.damages = true}, true, {}, write_and_read_direct); }, "numbers"},
      {slow, "a drive past the host that hangs",
       [] { return files({.stands = true}, true, {}, write_and_read_direct); },
       "waited 3.0 s for the copy"},
  };
}

std::vector<Planted> disagreements() {
  const char* const kind = "ranks that disagree, work without order";
  const auto one = [](CollectiveKind of, void (*change)(CollectiveCall&)) {
    return [=] {
      return everything({.tamper = [=](int rank, int, CollectiveCall& c) {
        if (c.kind == of && rank == 1) change(c);
      }});
    };
  };
  return {
      {kind, "another length",
       one(CollectiveKind::all_gather, [](CollectiveCall& c) { --c.count; }), "all_gather of "},
      {kind, "another dtype",
       one(CollectiveKind::reduce_scatter, [](CollectiveCall& c) { c.type = NcclType::bfloat16; }),
       "type 9"},
      {kind, "another root", one(CollectiveKind::broadcast, [](CollectiveCall& c) { c.root = 1; }),
       "root 1"},
      {kind, "a letter that is too short",
       one(CollectiveKind::exchange, [](CollectiveCall& c) { c.sends[0].bytes -= 4; }),
       "is not what that expects"},
      {kind, "a message outside of a group",
       [] { return everything_with(left_out(Call::group_start)); }, "a message outside of a group"},
      {kind, "a collective that is left out",
       [] { return train_with({.fault = left_out(Call::all_gather, 2)}); }, "asks for "},
      {kind, "a wait that is left out", [] { return test::drop(Call::stream_wait_event, 3); },
       "race: "},
  };
}

std::vector<Planted> all_planted() {
  std::vector<Planted> all;
  for (const auto& some : {late_answers(), full_queues_and_stops(), places_and_threads(),
                           broken_and_slow(), disagreements()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

TEST_CASE("faults of real devices and NCCL are found by their names, and every run ends",
          "[cuda]") {
  const auto all = all_planted();
  CHECK(all.size() >= 40);
  for (const Planted& planted : all) {
    const Outcome outcome = planted.run();
    std::string said = outcome.reports;
    for (const Status& status : outcome.statuses) said += status.message() + "\n";
    INFO(planted.kind << ": " << planted.what << "\n" << said);
    CHECK((outcome.reports_say(planted.found_as) || outcome.somebody_says(planted.found_as)));
  }
}

}  // namespace
}  // namespace tessera
