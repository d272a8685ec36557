// SPDX-License-Identifier: Apache-2.0
// A host program of which one rank misbehaves: mpirun -n 3 faulty_program FAULT RANK DEADLINE_MS
// Every rank that can prints "rank R ended after N ms: why"; N counts from the fault.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tessera/host_runtime.h"
#include "tests/backends/host/small_program.h"

using namespace tessera::test;
using namespace tessera;

namespace {

constexpr int calls = 40;
constexpr int faulty_call = 20;

volatile std::sig_atomic_t told_to_stop = 0;

Time real_time() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void say(Rank rank, Time since, const std::string& why) {
  const std::string line = "rank " + std::to_string(rank) + " ended after " +
                           std::to_string((real_time() - since) / 1'000'000) + " ms: " + why + "\n";
  static_cast<void>(!write(STDERR_FILENO, line.data(), line.size()));
}

// A cause's names must outlive the runtime's use.
const std::string& unit_name(int number) {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (int i = 0; i < calls; ++i) all.push_back("unit " + std::to_string(i));
    return all;
  }();
  return names[static_cast<std::size_t>(number)];
}

struct Program {
  ProcessRuntime& host;
  Rank rank;
  bool faulty;
  std::string fault;
  std::chrono::milliseconds deadline;
  Time& faulty_since;

  // What happens in the middle of the run, outside of the runtime.
  Status misbehave() {
    const bool late_first = fault == "hang_beside_a_late_first";
    // Later than the others' deadline, within their patience.
    if (late_first && rank == 0) std::this_thread::sleep_for(deadline * 5 / 4);
    if (!faulty) return {};
    if (fault == "kill") raise(SIGKILL);
    if (fault == "stop") raise(SIGSTOP);
    if (fault == "exit") _exit(1);
    if (fault == "quiet_exit") _exit(0);
    if (fault == "abort") std::abort();
    while (fault == "hang" || late_first) std::this_thread::sleep_for(std::chrono::seconds(1));
    return fault == "error" ? Status(Code::io_error, "disk full") : Status{};
  }

  Status call(const Streams& s, const View& x, const std::string& unit) {
    Runtime& runtime = host;
    Compute work = fill(x, 1);
    if (faulty && fault == "hang_in_body" && unit == "unit 20") {
      work.body = [](const BodyContext&) {
        for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
      };
    }
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, work)).status());
    Op op = on(runtime, s.communication, Wait{s.compute});
    op.cause.unit = unit;
    TESSERA_TRY(runtime.submit(op).status());
    op.what = AllReduce{s.world, x, x, Reduction::sum};
    TESSERA_TRY(runtime.submit(op).status());
    return runtime.submit(on(runtime, s.compute, Wait{s.communication})).status();
  }

  Status run() {
    Runtime& runtime = host;
    TESSERA_ASSIGN(const Streams s, make_streams(runtime));
    TESSERA_ASSIGN(const View all, numbers(runtime, s, 100'000));
    for (int i = 0; i < calls; ++i) {
      faulty_since = i <= faulty_call ? real_time() : faulty_since;
      if (i == faulty_call) TESSERA_TRY(misbehave());
      const bool now = faulty && i == faulty_call;
      if (now && fault == "less") continue;
      View x = all;
      if (now && fault == "size") x.numel = x.end = Numel{10};
      int number = i;
      if (faulty && fault == "order" && i / 2 == faulty_call / 2) number = i ^ 1;
      TESSERA_TRY(call(s, x, unit_name(number)));
      TESSERA_TRY(runtime.read(View::part(all.buffer, all.dtype, Numel{0}, Numel{1})).status());
    }
    TESSERA_TRY(runtime.submit(on(runtime, s.compute, fill(all, 1))).status());
    return host.finish();
  }
};

}  // namespace

int main(int, char** argv) {
  const std::string fault = argv[1];
  std::signal(SIGTERM, [](int) { told_to_stop = 1; });
  Rank rank = -1;
  Time since = real_time();
  const std::chrono::milliseconds deadline(std::atoll(argv[3]));
  HostOptions options{.clock = real_time, .deadline = deadline.count() * 1'000'000};
  options.interrupted = [] { return told_to_stop != 0; };
  options.on_hang = [&](const std::string& why) {
    say(rank, since, why);
    _exit(1);
  };
  auto host = make_mpi_runtime(options, TESSERA_BINARY_DIR);
  if (!host) return say(rank, since, host.status().message()), 2;
  rank = (*host)->local_ranks().first();
  Program program{**host, rank, rank == std::atoi(argv[2]), fault, deadline, since};
  const Status status = program.run();
  if (!status.ok()) (*host)->give_up(status);
  say(rank, since, status.ok() ? "all is well" : status.message());
  return status.ok() ? 0 : 1;
}
