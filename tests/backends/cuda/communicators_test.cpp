// SPDX-License-Identifier: Apache-2.0
// Communicators that are never finished: the run ends with a sentence on every rank, and what was
// half made is given back.
#include "engine/backends/cuda/communicators.h"

#include "tests/backends/cuda/cuda_ranks.h"

namespace tessera {
namespace {

using test::Call;
using test::PlantedFault;
using test::StandIn;

// Two ranks split the world twice.
std::vector<Status> split(StandIn& world) {
  const auto program = [](ProcessRuntime& host, Rank) -> Status {
    for (const Index size : {2, 1}) {
      TESSERA_ASSIGN(const auto groups, RankGroups::strided(2, size));
      TESSERA_TRY(host.create_communicator(groups, "axis").status());
    }
    return host.finish();
  };
  return test::run_on(world, program, {.deadline = 3'000'000'000});
}

void check_split(const PlantedFault& fault, bool deaf, const std::vector<std::string>& said) {
  const std::uint64_t seed = GENERATE(0, 1, 2);
  INFO("use " << fault.use << ", late " << fault.late << ", seed " << seed);
  StandIn world({.ranks = 2, .seed = seed, .fault = fault, .deaf = deaf});
  const auto statuses = split(world);
  for (std::size_t rank = 0; rank < said.size(); ++rank) {
    CHECK_FALSE(statuses[rank].ok());
    CHECK(statuses[rank].message().substr(0, said[rank].size()) == said[rank]);
  }
  CHECK(world.reports().empty());
  CHECK(world.leaks().empty());
}

TEST_CASE("a world that is never complete is given up at the deadline, half made", "[cuda]") {
  check_split({.call = Call::comm_init_rank, .rank = 1, .code = 3}, /*deaf=*/true,
              {"rank 0 waited 3.0 s for ncclCommInitRankConfig: another rank is dead, hangs",
               "ncclCommInitRankConfig failed: code 3"});
}

TEST_CASE("a rank whose world fails while it is made tells the others", "[cuda]") {
  const std::string why = "ncclCommInitRankConfig failed: code 6";
  check_split({.call = Call::comm_init_rank, .rank = 1, .code = 6, .late = true}, /*deaf=*/false,
              {why, why});
}

TEST_CASE("a split that fails on one rank ends all of them", "[cuda]") {
  const int use = GENERATE(1, 2);
  const bool late = GENERATE(false, true);
  const std::string why = "ncclCommSplit failed: code 5";
  check_split({.call = Call::comm_split, .rank = 1, .use = use, .code = 5, .late = late},
              /*deaf=*/false, {why, why});
}

TEST_CASE("a split that a rank never comes to is given up at the deadline", "[cuda]") {
  check_split({.call = Call::comm_split, .rank = 1, .use = 2, .code = 5}, /*deaf=*/true,
              {"rank 0 waited 3.0 s for ncclCommSplit: another rank is dead, hangs",
               "ncclCommSplit failed: code 5"});
}

TEST_CASE("a split that fails on every rank says so on every rank", "[cuda]") {
  const bool late = GENERATE(false, true);
  const std::string why = "ncclCommSplit failed: code 6";
  check_split({.call = Call::comm_split,
               .rank = PlantedFault::every_rank,
               .use = 2,
               .code = 6,
               .late = late},
              false, {why, why});
}

}  // namespace
}  // namespace tessera
