// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/event_owners.h"

#include "tests/backends/cuda/cuda_ranks.h"

namespace tessera {
namespace {

using test::StandIn;

// Three streams of fake GPUs without a backend.
Status count_events(StandIn& world, const std::function<void(std::size_t)>& remembered) {
  const CudaModule module = StandIn::module();
  EventPool pool(module.cuda);
  EventOwners::Lanes lanes;
  EventOwners owners(lanes);
  for (int k = 0; k < 3; ++k) {
    lanes.push_back(std::make_unique<Lane>(module.cuda, pool));
    TESSERA_TRY(lanes.back()->open(0));
  }
  // Nobody waits for the first stream, and the last one is used only once.
  for (std::int32_t k = 0; k < 50'000; ++k) {
    const StreamId stream{k == 7 ? 2 : k % 3 == 0 ? 1 : 0};
    const bool here = k % 5 != 0;
    TESSERA_TRY(owners.add(here ? stream : StreamId{}));
    if (!here) continue;
    Lane& lane = *lanes[stream.index()];
    TESSERA_TRY(lane.submitted({OpKind::compute, {}, EventId{k}}, stream == StreamId{1}));
    CHECK(owners.of(EventId{k}) == &lane);
    remembered(owners.size());
  }
  CHECK(owners.of(EventId{0}) == nullptr);
  while (world.now() >= 0) {
    TESSERA_ASSIGN(const bool over, lanes[0]->reached(lanes[0]->youngest()));
    if (over) break;
  }
  return {};
}

TEST_CASE("a run without end remembers the streams of few events", "[cuda]") {
  const std::uint64_t seed = GENERATE(0, 4);
  StandIn world({.seed = seed});
  std::size_t most = 0;
  const auto statuses = world.run([&](std::unique_ptr<CudaPeers>) {
    return count_events(world, [&](std::size_t size) { most = std::max(most, size); });
  });
  test::require_clean({statuses, world.reports(), world.leaks()});
  CHECK(most > 1'000);
  CHECK(most <= 8'192);
}

}  // namespace
}  // namespace tessera
