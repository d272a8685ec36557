// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <numeric>

#include "c/handles.h"
#include "tessera/host_runtime.h"
#include "tessera/sim/lockstep_runtime.h"

namespace tessera::c {
namespace {

Time real_time() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Virtual time is of no interest here.
class EqualCosts final : public sim::CostModel {
 public:
  Time compute(const ComputeCost&) const override { return 1; }
  Time copy(Bytes, CopyRoute) const override { return 1; }
  Time collective(const sim::CollectiveShape&) const override { return 1; }
  std::string_view algorithm(const sim::CollectiveShape&) const override { return "none"; }
};

constexpr std::int32_t ranks_max = 4096;  // with numbers of their own in one process

Status check_ranks(const tessera_runtime_options& options) {
  const std::int32_t most = options.kind == TESSERA_SIMULATOR ? ranks_max : 1;
  if (options.kind == TESSERA_MPI || (options.ranks >= 0 && options.ranks <= most)) return {};
  return Status(Code::invalid_argument,
                most > 1
                    ? fmt::format("ranks: {} of a simulator, choose 1 to {}", options.ranks, most)
                    : fmt::format("ranks: {} of a local runtime, which has 1: leave it 0, or "
                                  "choose TESSERA_SIMULATOR",
                                  options.ranks));
}

Status open(const tessera_runtime_options& options, tessera_runtime& runtime) {
  TESSERA_TRY(check_ranks(options));
  HostOptions host;
  host.clock = real_time;
  if (options.trace != nullptr) runtime.trace = std::make_unique<ProgramTrace>();
  host.sink = runtime.trace.get();
  if (options.deadline_seconds < 0 || !std::isfinite(options.deadline_seconds)) {
    return Status(Code::invalid_argument, "deadline_seconds: a number above 0");
  }
  if (options.deadline_seconds > 0) {
    host.deadline = static_cast<Time>(options.deadline_seconds * 1e9);
  }
  switch (options.kind) {
    case TESSERA_LOCAL: {
      TESSERA_ASSIGN(auto process, make_local_runtime(host));
      runtime.process = process.get();
      runtime.calls = std::move(process);
      break;
    }
    case TESSERA_MPI: {
      TESSERA_ASSIGN(auto process, make_mpi_runtime(host, options.modules ? options.modules : ""));
      const auto world = static_cast<std::int32_t>(process->world().count());
      if (options.ranks != 0 && options.ranks != world) {
        return Status(Code::invalid_argument,
                      fmt::format("ranks: {}, but {} processes were started: leave it 0",
                                  options.ranks, world));
      }
      runtime.process = process.get();
      runtime.calls = std::move(process);
      break;
    }
    case TESSERA_SIMULATOR: {
      runtime.cost = std::make_unique<EqualCosts>();
      std::vector<Rank> recorded(static_cast<std::size_t>(std::max(options.ranks, 1)));
      std::iota(recorded.begin(), recorded.end(), 0);
      TESSERA_ASSIGN(runtime.calls,
                     sim::LockstepRuntime::create({.world_size = std::max(options.ranks, 1),
                                                   .cost = runtime.cost.get(),
                                                   .numerics = true,
                                                   .sink = runtime.trace.get(),
                                                   .recorded_ranks = recorded}));
      break;
    }
    default:
      return Status(Code::invalid_argument,
                    "kind: TESSERA_LOCAL, TESSERA_MPI or TESSERA_SIMULATOR");
  }
  return runtime.trace ? runtime.trace->begin(*runtime.calls, options.trace) : Status{};
}

Status mean(tessera_runtime& runtime, const float* values, float& result) {
  const Rank first = runtime.calls->local_ranks().first();
  TESSERA_ASSIGN(const double all,
                 runtime.calls->mean([&](Rank rank) { return values[rank - first]; }));
  result = static_cast<float>(all);
  return {};
}

Status finish(tessera_runtime& runtime) {
  TESSERA_TRY(runtime.calls->finish());
  return runtime.trace ? runtime.trace->finish() : Status{};
}

}  // namespace
}  // namespace tessera::c

using tessera::c::guarded;

int tessera_runtime_create(const tessera_runtime_options* options, tessera_runtime** runtime) {
  return guarded(
      [&]() -> tessera::Status {
        auto made = std::make_unique<tessera_runtime>();
        TESSERA_ASSIGN(const auto given, tessera::c::taken(options));
        TESSERA_TRY(tessera::c::open(given, *made));
        *runtime = made.release();
        return {};
      },
      runtime);
}

void tessera_runtime_destroy(tessera_runtime* runtime) { delete runtime; }

int32_t tessera_runtime_ranks(const tessera_runtime* runtime) {
  return runtime == nullptr ? -1 : static_cast<std::int32_t>(runtime->calls->world().count());
}

int32_t tessera_runtime_first_rank(const tessera_runtime* runtime) {
  return runtime == nullptr ? -1 : runtime->calls->local_ranks().first();
}

int32_t tessera_runtime_local_ranks(const tessera_runtime* runtime) {
  return runtime == nullptr ? -1 : static_cast<std::int32_t>(runtime->calls->local_ranks().count());
}

int tessera_runtime_mean(tessera_runtime* runtime, const float* values, float* mean) {
  return guarded([&] { return tessera::c::mean(*runtime, values, *mean); }, runtime, values, mean);
}

int tessera_runtime_wait(tessera_runtime* runtime) {
  return guarded([&] { return runtime->calls->wait(); }, runtime);
}

int tessera_runtime_poll(tessera_runtime* runtime) {
  return guarded([&] { return runtime->calls->poll(); }, runtime);
}

int tessera_runtime_finish(tessera_runtime* runtime) {
  return guarded([&] { return tessera::c::finish(*runtime); }, runtime);
}

void tessera_runtime_give_up(tessera_runtime* runtime, const char* why) {
  if (runtime == nullptr || runtime->process == nullptr) return;
  runtime->process->give_up({tessera::Code::cancelled, why == nullptr ? "no reason given" : why});
}
