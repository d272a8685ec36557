// SPDX-License-Identifier: Apache-2.0
// The plugin's functions, called as NCCL would.
#include "engine/cuda/module/nccl_profiler.h"

#include <array>
#include <catch2/catch.hpp>
#include <string>

namespace tessera {
namespace {

std::string told() {
  std::array<char, 64> text{};
  const int length = last_collective(text.data(), static_cast<int>(text.size()));
  return {text.data(), static_cast<std::size_t>(length)};
}

TEST_CASE("NCCL's profiler tells how it carries out the last collective, once", "[cuda]") {
  int context_of = 0;
  void* context = &context_of;
  int events = 0;
  REQUIRE(ncclProfiler_v5.init(&context, 7, &events, "world", 1, 2, 0, nullptr) == 0);
  CHECK(events == profile_collectives);
  CHECK(told().empty());
  void* event = &context_of;
  ProfilerEvent description{};
  description.type = profile_collectives;
  description.collective.function = "AllGather";
  description.collective.algorithm = "RING";
  description.collective.protocol = "SIMPLE";
  description.collective.channels = 24;
  REQUIRE(ncclProfiler_v5.start_event(context, &event, &description) == 0);
  CHECK(event == nullptr);
  description.type = 1;  // a group, whose other fields mean nothing
  REQUIRE(ncclProfiler_v5.start_event(context, &event, &description) == 0);
  CHECK(ncclProfiler_v5.stop_event(event) == 0);
  CHECK(told() == "RING SIMPLE, 24 channels");
  CHECK(told().empty());
  CHECK(ncclProfiler_v5.finalize(context) == 0);
}

TEST_CASE("the plugin's structures lie where NCCL 2.28 puts them", "[cuda]") {
  // profiler_v5.h on a 64-bit machine.
  CHECK(offsetof(ProfilerEvent, rank) == 16);
  CHECK(offsetof(ProfilerEvent, collective) == 24);
  CHECK(offsetof(ProfiledCollective, count) == 32);
  CHECK(offsetof(ProfiledCollective, dtype) == 48);
  CHECK(offsetof(ProfiledCollective, channels) == 56);
  CHECK(offsetof(ProfiledCollective, algorithm) == 64);
  CHECK(offsetof(ProfiledCollective, protocol) == 72);
  CHECK(sizeof(ProfilerV5) == 6 * sizeof(void*));
}

}  // namespace
}  // namespace tessera
