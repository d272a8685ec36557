// SPDX-License-Identifier: Apache-2.0
#include "c/program_trace.h"

#include <fmt/format.h>

#include <numeric>

namespace tessera::c {

Status ProgramTrace::begin(const CheckedRuntime& runtime, const std::string& path) {
  if (!runtime.local_ranks().contains(0)) return {};
  TESSERA_ASSIGN(writer_, storage::TraceWriter::create(path));
  const auto ranks = static_cast<Rank>(runtime.world().count());
  TraceRun run;
  run.name = fmt::format("a program on {} {}", ranks, ranks == 1 ? "rank" : "ranks");
  run.backend = runtime.local_ranks().count() < ranks ? "mpi" : "host";
  run.version = TESSERA_VERSION;
  run.options = "{}";
  run.ranks = run.ranks_per_node = ranks;
  run.recorded_ranks.resize(static_cast<std::size_t>(ranks));
  std::iota(run.recorded_ranks.begin(), run.recorded_ranks.end(), 0);
  begin(run);
  return {};
}

void ProgramTrace::engine_made(const Engine& engine) {
  if (!writer_) return;
  for (const UnitInfo& info : engine.units()) {
    unit({units_++, info.name, info.parameters, info.numel, info.padding});
  }
}

Status ProgramTrace::finish() { return writer_ ? writer_->finish() : Status{}; }

}  // namespace tessera::c
