// SPDX-License-Identifier: Apache-2.0
// The plugin's functions, called as NCCL would.
#include "engine/backends/cuda/module/nccl_profiler.h"

#include <catch2/catch.hpp>
#include <string>

namespace tessera {
namespace {

const ProfilerV5& nccl() { return ncclProfiler_v5; }

std::string told() {
  NcclCollective collective;
  return last_collective(&collective) ? collective.how.data() : "";
}

void* start_collective(std::uint8_t channels) {
  ProfilerEvent description{};
  description.type = profile_collectives;
  description.collective.function = "AllGather";
  description.collective.algorithm = "RING";
  description.collective.protocol = "SIMPLE";
  description.collective.channels = channels;
  void* event = nullptr;
  REQUIRE(nccl().start_event(nullptr, &event, &description) == 0);
  return event;
}

void* start_channel(void* collective, std::uint64_t start) {
  ProfilerEvent description{};
  description.type = profile_kernels;
  description.parent = collective;
  description.kernel.start = start;
  void* event = nullptr;
  REQUIRE(nccl().start_event(nullptr, &event, &description) == 0);
  return event;
}

void stop_channel(void* event, std::uint64_t end) {
  ProfilerState state{end};
  REQUIRE(nccl().record_event_state(event, kernel_ended, &state) == 0);
  REQUIRE(nccl().stop_event(event) == 0);
}

TEST_CASE("NCCL's profiler tells how it carries out the last collective, once", "[cuda]") {
  int context_of = 0;
  void* context = &context_of;
  int events = 0;
  REQUIRE(nccl().init(&context, 7, &events, "world", 1, 2, 0, nullptr) == 0);
  CHECK(events == (profile_collectives | profile_kernels));
  CHECK(told().empty());
  void* const collective = start_collective(24);
  CHECK(collective != nullptr);
  ProfilerEvent group{};
  group.type = 1;  // whose other fields mean nothing
  void* event = &context_of;
  REQUIRE(nccl().start_event(context, &event, &group) == 0);
  CHECK(event == nullptr);
  CHECK(nccl().stop_event(event) == 0);
  CHECK(told() == "RING SIMPLE, 24 channels");
  CHECK(told().empty());
  CHECK(nccl().finalize(context) == 0);
}

TEST_CASE("a collective's kernels run from the first channel's start to the last one's end",
          "[cuda]") {
  void* const first = start_collective(2);
  NcclCollective first_told, second_told;
  REQUIRE(last_collective(&first_told));
  void* const second = start_collective(1);
  REQUIRE(last_collective(&second_told));
  CHECK(nccl().stop_event(first) == 0);  // handed over; kernels come later, from another thread
  CHECK(nccl().stop_event(second) == 0);
  void* const a = start_channel(first, 1'000);
  void* const b = start_channel(first, 900);
  void* const c = start_channel(second, 5'000);
  stop_channel(a, 2'500);
  NcclKernel kernel;
  CHECK_FALSE(next_kernel(&kernel));
  stop_channel(c, 5'600);
  stop_channel(b, 2'400);
  REQUIRE(next_kernel(&kernel));
  CHECK(kernel.number == second_told.number);
  CHECK(kernel.time == 600);
  REQUIRE(next_kernel(&kernel));
  CHECK(kernel.number == first_told.number);
  CHECK(kernel.time == 1'600);
  CHECK_FALSE(next_kernel(&kernel));
}

TEST_CASE("the plugin ignores what it has not started", "[cuda]") {
  void* const collective = start_collective(1);
  void* const channel = start_channel(collective, 10);
  stop_channel(channel, 20);
  NcclKernel kernel;
  REQUIRE(next_kernel(&kernel));
  stop_channel(channel, 30);                        // twice
  CHECK(start_channel(collective, 40) == nullptr);  // one channel too many
  CHECK(start_channel(nullptr, 50) == nullptr);     // of a point-to-point message
  CHECK(nccl().record_event_state(nullptr, 3, nullptr) == 0);
  CHECK_FALSE(next_kernel(&kernel));
  CHECK(told() == "RING SIMPLE, 1 channels");
}

TEST_CASE("kernels that nobody asks for are forgotten", "[cuda]") {
  constexpr int runs = 5'000;
  for (int k = 0; k < runs; ++k) stop_channel(start_channel(start_collective(1), 10), 20);
  NcclKernel kernel;
  int told_of = 0;
  while (next_kernel(&kernel)) ++told_of;
  CHECK(told_of == 4096);
  CHECK_FALSE(told().empty());
}

TEST_CASE("the plugin's structures lie where NCCL 2.28 puts them", "[cuda]") {
  // profiler_v5.h on a 64-bit machine.
  CHECK(offsetof(ProfilerEvent, rank) == 16);
  CHECK(offsetof(ProfilerEvent, collective) == 24);
  CHECK(offsetof(ProfilerEvent, kernel) == 24);
  CHECK(offsetof(ProfiledCollective, count) == 32);
  CHECK(offsetof(ProfiledCollective, dtype) == 48);
  CHECK(offsetof(ProfiledCollective, channels) == 56);
  CHECK(offsetof(ProfiledCollective, algorithm) == 64);
  CHECK(offsetof(ProfiledCollective, protocol) == 72);
  CHECK(offsetof(ProfiledKernel, start) == 8);
  CHECK(sizeof(ProfilerV5) == 6 * sizeof(void*));
}

}  // namespace
}  // namespace tessera
