// SPDX-License-Identifier: Apache-2.0
// A short training run in which something is planted, and what is said about it.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/backends/cuda/cuda_ranks.h"
#include "tests/backends/host/training_run.h"

namespace tessera::test {

inline constexpr Rank faulty_ranks = 2;

struct Outcome {
  std::vector<Status> statuses;
  std::string reports;  // all of them
  std::string leaks;
  bool same_numbers = false;  // as simulated

  bool reports_say(const std::string& words) const {
    return reports.find(words) != std::string::npos;
  }
  bool somebody_says(const std::string& words) const {
    return std::any_of(statuses.begin(), statuses.end(), [&](const Status& status) {
      return status.message().find(words) != std::string::npos;
    });
  }
  bool silent() const {
    return reports.empty() && std::all_of(statuses.begin(), statuses.end(),
                                          [](const Status& status) { return status.ok(); });
  }
};

inline const Run& training() {
  static const Run run = training_run(schemes().front().second, faulty_ranks);
  return run;
}

inline const std::vector<Trained>& simulated_training() {
  Bytes peak{};
  static const std::vector<Trained> all = simulated(training(), peak);
  return all;
}

/// Makes the Runtime that stands between the engine and the backend of a rank.
using Between = std::function<std::unique_ptr<Runtime>(Runtime& backend, Rank rank)>;

inline Outcome train_with(StandInOptions options, const Between& between = {}) {
  options.ranks = faulty_ranks;
  if (options.seed == 0) options.seed = 5;
  StandIn world(options);
  std::vector<Trained> real(faulty_ranks);
  Outcome outcome;
  outcome.statuses =
      run_on(world,
             [&](ProcessRuntime& runtime, Rank rank) {
               const auto made = between ? between(runtime, rank) : nullptr;
               return train(
                   made ? *made : runtime, training(),
                   [&](Rank) -> Trained& { return real[static_cast<std::size_t>(rank)]; },
                   [&] { return runtime.finish(); });
             },
             {.deadline = 3'000'000'000});
  for (const std::string& report : world.reports()) outcome.reports += report + "\n";
  outcome.leaks = world.leaks();
  outcome.same_numbers = true;
  for (std::size_t r = 0; r < real.size(); ++r) {
    outcome.same_numbers = outcome.same_numbers &&
                           real[r].shards == simulated_training()[r].shards &&
                           real[r].losses == simulated_training()[r].losses;
  }
  return outcome;
}

inline Outcome drop(Call call, int use, std::uint64_t seed = 5) {
  return train_with({.seed = seed, .fault = PlantedFault{call, 1, use, 0, /*dropped=*/true}});
}

}  // namespace tessera::test
