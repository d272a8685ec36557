// SPDX-License-Identifier: Apache-2.0
#include "analysis/late_gathers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/analysis/median.h"
#include "tessera/analysis/metrics.h"
#include "tessera/analysis/spans.h"
#include "tessera/analysis/text.h"

namespace tessera::analysis {
namespace {

constexpr std::int32_t steps_read = 4;        // the last ones: enough to tell chance from habit
constexpr std::size_t units_min = 5;          // of a phase, to say what is usual
constexpr double cost_min_of_gather = 0.005;  // of the step

/// All gathers of one unit in one phase.
struct UnitGather {
  Time exposed = 0;  // sum over steps, transfers only: who waits for a slow rank is not late
  int count = 0;
  bool first = false;  // of its phase in some step: nothing could hide it
  bool ahead = false;  // some was issued ahead of its use
  std::int32_t op = -1;
  Time time = 0;
};
using Key = std::tuple<Phase, std::string>;

// The rank in the middle, not a slow one: of those recorded, by their compute in the last step.
Rank usual_rank(const Trace& trace) {
  std::vector<std::pair<Time, Rank>> ranks;
  for (const Rank rank : trace.run().recorded_ranks) {
    ranks.emplace_back(trace.last_rows().compute[static_cast<std::size_t>(rank)], rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks.empty() ? -1 : ranks[ranks.size() / 2].second;
}

void read_lane(const Trace& trace, const storage::Lane& lane, Lanes compute,
               std::int32_t first_step, std::map<Key, UnitGather>& gathers) {
  std::pair<std::int32_t, Phase> before{-1, Phase::none};
  for (std::size_t i = 0; i < lane.op.size(); ++i) {
    const storage::OpRow& op = trace.op(lane.op[i]);
    if (op.kind != OpKind::all_gather || op.step < first_step) continue;
    UnitGather& gather = gathers[{op.phase, op.unit}];
    const std::pair now{op.step, op.phase};
    gather.first |= now != before;
    before = now;
    Time exposed = 0;
    for (const auto& [begin, end] : exposed_parts(compute, lane.ready[i], lane.end[i])) {
      exposed += end - begin;
    }
    if (gather.op < 0 || exposed > 0) {
      gather.op = op.id;
      gather.time = lane.begin[i];
    }
    gather.exposed += exposed;
    ++gather.count;
    gather.ahead |= op.reason == Reason::backward_prefetch || op.reason == Reason::forward_prefetch;
  }
}

std::string advice_of(const TraceRun& run, Phase phase) {
  if (run.scheme == "zero3")
    return "Gather further ahead: a larger --prefetch-bucket or --live-budget.";
  if (run.scheme == "fully_shard") {
    return "Gather it further ahead: name its module in the lists of modules to prefetch.";
  }
  return phase == Phase::backward
             ? "Gather it before the unit ahead of it: --backward-prefetch pre."
             : "Gather ahead in forward, too: --forward-prefetch.";
}

}  // namespace

Status add_late_gathers(const Trace& trace, Time step_time, std::vector<Finding>& out) {
  const Rank rank = usual_rank(trace);
  if (rank < 0) return {};
  const auto [from, to] = trace.recorded_steps();
  if (from >= to) return {};
  const std::int32_t steady = first_steady(from, to);
  const std::int32_t first_step = std::max(steady, to - steps_read);
  const std::int32_t steps = to - first_step;
  TESSERA_ASSIGN(const auto lanes, trace.reader().lanes(rank, trace.step_range(first_step).first,
                                                        std::max<Time>(trace.info().end, 1)));
  const auto compute = compute_lanes(trace, lanes);
  std::map<Key, UnitGather> gathers;
  for (const storage::Lane& lane : lanes) read_lane(trace, lane, compute, first_step, gathers);
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    std::vector<std::int64_t> exposed;
    for (const auto& [key, gather] : gathers) {
      if (std::get<Phase>(key) == phase && !gather.first) exposed.push_back(gather.exposed / steps);
    }
    if (exposed.size() < units_min) continue;
    const Usual usual = usual_of(exposed);
    for (const auto& [key, gather] : gathers) {
      if (std::get<Phase>(key) != phase || gather.first) continue;
      const Time late = gather.exposed / steps - static_cast<Time>(usual.median);
      const double cost = static_cast<double>(late) / static_cast<double>(step_time);
      if (static_cast<double>(late) <= usual.reach || cost < cost_min_of_gather) continue;
      Finding& f = out.emplace_back();
      f.kind = FindingKind::late_gather;
      f.title = fmt::format("{} is gathered {} too late in {}", std::get<std::string>(key),
                            time_text(late), name_of(phase));
      f.evidence = fmt::format(
          "On rank {} nothing is computed during {} of its all_gather a step, of other units {}; "
          "it is {}issued ahead of its use.",
          rank, time_text(gather.exposed / steps), time_text(static_cast<Time>(usual.median)),
          gather.ahead ? "" : "not ");
      f.advice = advice_of(trace.run(), phase);
      f.cost = cost;
      f.rank = rank;
      f.op = gather.op;
      f.time = gather.time;
      f.step = trace.op(gather.op).step;
    }
  }
  return {};
}

}  // namespace tessera::analysis
