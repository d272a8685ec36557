// SPDX-License-Identifier: Apache-2.0
#include "analysis/idle_times.h"

#include <algorithm>
#include <set>
#include <utility>

#include "analysis/busy_times.h"
#include "tessera/analysis/median.h"

namespace tessera::analysis {
namespace {

constexpr std::int32_t steps_at_once = 32;
constexpr std::int64_t ids_looked_at = 1 << 16;  // of operations: a step has each kind of work

/// Streams of the host on which something is computed; what only copies moves files.
Result<std::set<std::int32_t>> computing_streams(const Trace& trace) {
  std::set<std::int32_t> streams;
  TESSERA_ASSIGN(const auto range, trace.reader().op_range());
  const std::int64_t to = std::min<std::int64_t>(range.second, range.first + ids_looked_at);
  TESSERA_ASSIGN(const auto ops,
                 trace.reader().op_sorts(range.first, static_cast<std::int32_t>(to)));
  for (const storage::OpSort& op : ops) {
    if (op.kind == OpKind::compute) streams.insert(op.stream);
  }
  return streams;
}

class IdleTimes {
 public:
  IdleTimes(const Trace& trace, Metric metric, std::set<std::int32_t> computing)
      : trace_(trace), metric_(metric), computing_(std::move(computing)) {}

  /// ns of each of the stretches, ascending, of one rank.
  std::vector<Time> of(const std::vector<storage::Lane>& lanes,
                       const std::vector<std::pair<Time, Time>>& steps) const {
    BusyTimes hidden(chosen(lanes, order_of(metric_) - 1));
    BusyTimes busy(chosen(lanes, order_of(metric_)));
    std::vector<Time> times;
    for (const auto& step : steps) {
      // The program is what nothing else explains.
      const Time rest = free(hidden, step);
      times.push_back(metric_ == Metric::host ? rest : rest - free(busy, step));
    }
    return times;
  }

 private:
  // What hides what comes later.
  enum Order { device, cpu, files, copies, host };

  // Of a stretch, what is not `busy`; stretches are asked in their order.
  static Time free(BusyTimes& busy, const std::pair<Time, Time>& stretch) {
    const Time before = busy.before(stretch.first);
    return stretch.second - stretch.first - (busy.before(stretch.second) - before);
  }

  static int order_of(Metric metric) {
    if (metric == Metric::cpu) return cpu;
    return metric == Metric::files ? files : host;
  }
  int order_of(std::int32_t stream) const {
    switch (trace_.stream(stream).role) {
      case StreamRole::compute:
      case StreamRole::communication: return device;
      case StreamRole::copy: return copies;
      case StreamRole::host: break;
    }
    return computing_.contains(stream) ? cpu : files;
  }
  std::vector<const storage::Lane*> chosen(const std::vector<storage::Lane>& lanes,
                                           int last) const {
    std::vector<const storage::Lane*> those;
    for (const storage::Lane& lane : lanes) {
      if (order_of(lane.stream) <= last) those.push_back(&lane);
    }
    return those;
  }

  const Trace& trace_;
  const Metric metric_;
  const std::set<std::int32_t> computing_;
};

// Ranks that are not known have the median of those that are.
void add_step(const std::vector<std::pair<Rank, Time>>& known, MetricTable& table) {
  std::vector<Time> times;
  for (const auto& [rank, time] : known) times.push_back(time);
  const Time usual = times.empty() ? 0 : median(std::move(times));
  std::vector<std::int64_t> values(static_cast<std::size_t>(table.ranks()), usual);
  for (const auto& [rank, time] : known) values[static_cast<std::size_t>(rank)] = time;
  table.add_step(values);
  auto next = known.begin();
  for (Rank rank = 0; rank < table.ranks(); ++rank) {
    if (next != known.end() && next->first == rank) {
      ++next;
    } else {
      table.set_unknown(rank);
    }
  }
}

}  // namespace

Result<MetricTable> idle_table(const Trace& trace, Metric metric) {
  TESSERA_ASSIGN(auto computing, computing_streams(trace));
  const IdleTimes idle(trace, metric, std::move(computing));
  MetricTable table(metric, trace.rank_count());
  table.reserve(trace.step_count());
  const auto [recorded_from, recorded_to] = trace.recorded_steps();
  for (std::int32_t first = 0; first < trace.step_count(); first += steps_at_once) {
    const std::int32_t count = std::min(steps_at_once, trace.step_count() - first);
    TESSERA_ASSIGN(const storage::RankSteps rows, trace.step_rows(first, count));
    std::vector<std::vector<std::pair<Rank, Time>>> known(static_cast<std::size_t>(count));
    for (const Rank rank : trace.run().recorded_ranks) {
      std::vector<std::pair<Time, Time>> stretches;
      std::vector<std::size_t> which;
      for (std::int32_t k = 0; k < count; ++k) {
        const auto i = static_cast<std::size_t>(k) * static_cast<std::size_t>(rows.ranks) +
                       static_cast<std::size_t>(rank);
        const bool recorded = recorded_from <= first + k && first + k < recorded_to;
        if (!recorded || rows.begin[i] >= rows.end[i]) continue;
        stretches.emplace_back(rows.begin[i], rows.end[i]);
        which.push_back(static_cast<std::size_t>(k));
      }
      if (stretches.empty()) continue;
      TESSERA_ASSIGN(const auto lanes,
                     trace.reader().lanes(rank, stretches.front().first, stretches.back().second));
      const std::vector<Time> times = idle.of(lanes, stretches);
      for (std::size_t k = 0; k < times.size(); ++k) known[which[k]].emplace_back(rank, times[k]);
    }
    for (const auto& step : known) add_step(step, table);
  }
  return table;
}

}  // namespace tessera::analysis
