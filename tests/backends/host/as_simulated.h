// SPDX-License-Identifier: Apache-2.0
// Every backend must get the same operations as the simulator, in the same order, and train as it
// does, to the bit and to the byte.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tessera/host_runtime.h"
#include "tests/backends/host/listing_runtime.h"
#include "tests/backends/host/training_run.h"

namespace tessera::test {

using RankProgram = std::function<Status(ProcessRuntime&, Rank)>;
/// Runs a program on the ranks that this process carries, and requires that all end well.
using OnRanks = std::function<void(const RankProgram&)>;

inline void check_same_lines(const std::vector<std::string>& real,
                             const std::vector<std::string>& simulated) {
  const auto [own, other] =
      std::mismatch(real.begin(), real.end(), simulated.begin(), simulated.end());
  INFO("call " << own - real.begin());
  CHECK((own == real.end() ? "the end" : *own) == (other == simulated.end() ? "the end" : *other));
}

inline void check_as_simulated(const std::string& name, const Scheme& scheme, Rank ranks,
                               const OnRanks& on_ranks) {
  struct Outcome {
    bool carried = false;
    Trained trained;
    Bytes peak{};
    std::vector<std::string> calls;
  };
  INFO(name << " on " << ranks << " ranks");
  const Run run = training_run(scheme, ranks);
  std::vector<Outcome> real(static_cast<std::size_t>(ranks));
  on_ranks([&](ProcessRuntime& runtime, Rank rank) {
    Outcome& own = real[static_cast<std::size_t>(rank)];
    own.carried = true;
    ListingRuntime listed(runtime, own.calls);
    TESSERA_TRY(train(
        listed, run, [&](Rank) -> Trained& { return own.trained; },
        [&] { return runtime.finish(); }));
    own.peak = runtime.peak_reserved();
    return Status{};
  });
  Bytes peak{};
  std::vector<std::string> calls;
  const std::vector<Trained> simulated_ranks = simulated(run, peak, &calls);
  for (std::size_t r = 0; r < real.size(); ++r) {
    if (!real[r].carried) continue;
    INFO("rank " << r);
    CHECK(real[r].trained.shards == simulated_ranks[r].shards);
    CHECK(real[r].trained.losses == simulated_ranks[r].losses);
    CHECK(real[r].peak == peak);
    check_same_lines(real[r].calls, calls);
  }
}

/// Those that this number of ranks can be cut into.
inline bool has_groups_for(const std::string& scheme, Rank ranks) {
  return ranks % 2 == 0 || scheme.find("groups of 2") == std::string::npos;
}

}  // namespace tessera::test
