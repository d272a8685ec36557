// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/write_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "exchange/import/lanes.h"
#include "exchange/import/memory_rows.h"
#include "exchange/import/op_rows.h"

namespace tessera::exchange {
namespace {

// More than any cluster has: a file of a few hundred bytes may claim them all, and every rank has
// rows of its own in the trace.
constexpr std::int32_t world_max = 1 << 17;
// A step of one of them takes about 0.2 us, whether it is known or not.
constexpr std::int64_t rank_steps_max = 1 << 24;

/// Calls `each` with every time of a rank.
template <class Each>
void for_each_time(ImportedRank& rank, Each each) {
  for (ImportedSpan& span : rank.spans) {
    each(span.begin);
    each(span.end);
  }
  for (ImportedMemory& sample : rank.memory) each(sample.time);
  for (ImportedStep& step : rank.steps) {
    each(step.begin);
    each(step.end);
  }
}

/// All times from the first on; those of steps that begin before it are cut. Fails:
/// invalid_argument, where files tell of times that no run reaches from one to the other.
Status begin_at_zero(ImportedRun& run) {
  constexpr Time longest = Time{1} << 57;  // 4 years
  Time first = std::numeric_limits<Time>::max(), last = std::numeric_limits<Time>::min();
  const auto look = [&](Time time) {
    first = std::min(first, time);
    last = std::max(last, time);
  };
  for (const ImportedRank& rank : run.ranks()) {
    for (const ImportedSpan& span : rank.spans) look(span.begin + rank.offset);
    for (const ImportedMemory& m : rank.memory) look(m.time + rank.offset);
  }
  if (first < last && last / 2 - first / 2 > longest / 2) {
    return {Code::invalid_argument,
            "The clocks of these files are years apart, and no collective in common tells by how "
            "much: import them one by one."};
  }
  for (ImportedRank& rank : run.ranks()) {
    for_each_time(rank, [&](Time& time) { time = std::max<Time>(0, time + rank.offset - first); });
  }
  for (ImportedDiagnostic& diagnostic : run.diagnostics) {
    const auto of = std::find_if(run.ranks().begin(), run.ranks().end(),
                                 [&](const auto& rank) { return rank.rank == diagnostic.rank; });
    const Time offset = of == run.ranks().end() ? 0 : of->offset;
    diagnostic.time = std::max<Time>(0, diagnostic.time + offset - first);
  }
  return {};
}

Status find_world(ImportedRun& run) {
  std::int64_t world = std::max(run.world, 1);
  for (const ImportedRank& rank : run.ranks()) world = std::max(world, std::int64_t{rank.rank} + 1);
  for (const ImportedGroup& group : run.groups()) {
    world = std::max({world, std::int64_t{group.size},
                      group.ranks.empty() ? 0 : std::int64_t{group.ranks.back()} + 1});
  }
  if (world > world_max) {
    return {Code::invalid_argument,
            fmt::format("The files claim a run of {} ranks; at most {} can be imported.", world,
                        world_max)};
  }
  run.world = static_cast<std::int32_t>(world);
  return {};
}

/// As many as files name the first host; 1: nobody says.
std::int32_t ranks_per_node(const ImportedRun& run) {
  if (run.ranks().empty() || run.ranks().front().host.empty()) return 1;
  const auto count = std::count_if(run.ranks().begin(), run.ranks().end(), [&](const auto& rank) {
    return rank.host == run.ranks().front().host;
  });
  return static_cast<std::int32_t>(count);
}

void begin_run(ImportedRun& run, TraceSink& sink, Imported& done) {
  TraceRun facts = run.facts;
  facts.ranks = run.world;
  facts.backend = "import";
  if (facts.options.empty()) facts.options = "{}";
  for (const ImportedRank& rank : run.ranks()) facts.recorded_ranks.push_back(rank.rank);
  done.ranks = facts.recorded_ranks;
  done.world = run.world;
  facts.ranks_per_node = ranks_per_node(run);
  sink.begin(facts);
}

/// Ranks of which nothing is known have steps without length.
void write_steps(const ImportedRun& run, const StepTable& steps, const OpRows& ops,
                 TraceSink& sink) {
  if (run.ranks().empty()) return;
  std::vector<StepSums> sums;
  for (std::size_t r = 0; r < run.ranks().size(); ++r) {
    sums.push_back(step_sums(run, r, steps, ops.collectives(r)));
  }
  const auto world = static_cast<std::size_t>(run.world);
  for (std::int32_t step = 0; step < steps.steps(); ++step) {
    const auto s = static_cast<std::size_t>(step);
    Time first = std::numeric_limits<Time>::max();
    for (std::size_t r = 0; r < sums.size(); ++r) {
      first = std::min(first, steps.ranges(r)[s].begin);
    }
    std::vector<Time> begin(world, first), end(world, first), compute(world), communication(world),
        exposed(world), blocking(world), wait(world);
    std::vector<Bytes> allocated(world), reserved(world);
    for (std::size_t r = 0; r < sums.size(); ++r) {
      const auto at = static_cast<std::size_t>(run.ranks()[r].rank);
      begin[at] = steps.ranges(r)[s].begin;
      end[at] = steps.ranges(r)[s].end;
      compute[at] = sums[r].compute[s];
      communication[at] = sums[r].communication[s];
      exposed[at] = sums[r].exposed[s];
      blocking[at] = sums[r].blocking[s];
      wait[at] = sums[r].wait[s];
      allocated[at] = sums[r].peak_allocated[s];
      reserved[at] = sums[r].peak_reserved[s];
    }
    sink.rank_steps(
        {step, begin, end, compute, communication, exposed, blocking, wait, allocated, reserved});
  }
}

void write_units(const ImportedRun& run, const OpRows& ops, TraceSink& sink) {
  std::int32_t id = 0;
  for (const TextId unit : ops.units()) sink.unit({.id = id++, .name = run.text(unit)});
}

void write_diagnostics(const ImportedRun& run, TraceSink& sink) {
  for (const ImportedDiagnostic& d : run.diagnostics) {
    const Rank rank = d.rank >= 0 && d.rank < run.world ? d.rank : -1;
    sink.diagnostic({d.severity, d.code, rank, -1, d.time, d.message});
  }
  for (const std::string& warning : run.warnings()) {
    sink.diagnostic({DiagnosticSeverity::warning, "import", -1, -1, 0, warning});
  }
}

}  // namespace

Status write_run(ImportedRun& run, const CollectiveMatches& matches, TraceSink& sink,
                 Imported& done) {
  TESSERA_TRY(find_world(run));
  TESSERA_TRY(begin_at_zero(run));
  for (ImportedRank& rank : run.ranks()) split_lanes(rank, run);
  StepTable steps(run);
  if (std::int64_t{steps.steps()} * run.world > rank_steps_max) {
    return {Code::invalid_argument,
            fmt::format("The files claim {} steps of {} ranks, which is more than can be imported.",
                        steps.steps(), run.world)};
  }
  for (std::size_t r = 0; r < run.ranks().size(); ++r) steps.assign(r, run.ranks()[r].spans);
  begin_run(run, sink, done);
  OpRows ops(run, matches, steps, sink);
  ops.declare();
  ops.write();
  write_units(run, ops, sink);
  write_memory(run, steps, sink);
  write_steps(run, steps, ops, sink);
  if (ops.without_wait() > 0) {
    run.warn(fmt::format(
        "of {} collectives not all members were imported: how long they waited is not known, and "
        "counts as transfer",
        ops.without_wait()));
  }
  write_diagnostics(run, sink);
  done.steps = run.ranks().empty() ? 0 : steps.steps();
  done.spans = ops.spans();
  for (const MatchedCollective& matched : matches.matched) {
    done.collectives += matched.members;
    if (matched.members > 1) done.matched_collectives += matched.members;
  }
  return sink.finish();
}

}  // namespace tessera::exchange
