// SPDX-License-Identifier: Apache-2.0
#include "analysis/habits.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tessera::analysis {
namespace {

// Importers call a stream of a device "compute", and a thread of the host that computes itself by
// what it is.
bool threads_compute(const Trace& trace) {
  const auto& streams = trace.info().streams;
  return std::any_of(streams.begin(), streams.end(), [](const storage::StreamRow& stream) {
    return stream.role == StreamRole::compute && stream.name == "main thread";
  });
}

}  // namespace

Habits habits_of(const Trace& trace) {
  const TraceRun& run = trace.run();
  Habits habits;
  habits.one_by_one = run.backend == "local" || run.backend == "mpi";
  habits.exact = run.backend == "simulator";
  habits.annotates = run.backend == "import";
  habits.one_by_one |= habits.annotates && threads_compute(trace);
  const auto options = nlohmann::json::parse(run.options, nullptr, /*allow_exceptions=*/false);
  if (!options.is_object() || !options.contains("profile")) return habits;
  const auto& profile = options["profile"];
  if (!profile.is_object()) return habits;
  habits.one_by_one |= profile.contains("one_thread") && profile["one_thread"] == true;
  return habits;
}

}  // namespace tessera::analysis
