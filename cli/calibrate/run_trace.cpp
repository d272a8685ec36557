// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/run_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "cli/plan/again.h"
#include "engine/text/json_reader.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::cli {
namespace {

using storage::Lane;
using storage::OpRow;

constexpr std::int32_t steps_min = 3;  // the first is left out

// The mean without the lowest and the highest tenth: what others did on the machine hardly counts,
// and yet sums of such means are near the means of sums.
double typical(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 10);
  const double sum = std::accumulate(values.begin() + cut, values.end() - cut, 0.0);
  return sum / static_cast<double>(static_cast<std::ptrdiff_t>(values.size()) - 2 * cut);
}

struct Interval {
  Time begin, ready, end;
  const OpRow* op;
};

// Time that is taken, as intervals that do not touch.
class Taken {
 public:
  /// Takes what of the interval was free, and says how much that was.
  Time take(Time begin, Time end) {
    Time added = std::max<Time>(0, end - begin);
    auto at = busy_.upper_bound(begin);
    if (at != busy_.begin() && std::prev(at)->second >= begin) --at;
    while (at != busy_.end() && at->first <= end) {
      added -= std::max<Time>(0, std::min(end, at->second) - std::max(begin, at->first));
      begin = std::min(begin, at->first);
      end = std::max(end, at->second);
      at = busy_.erase(at);
    }
    busy_[begin] = end;
    return added;
  }

 private:
  std::map<Time, Time> busy_;
};

// Everything that is collected, a value for every step and rank.
struct Samples {
  std::map<std::pair<std::string, Phase>, std::pair<std::vector<double>, std::vector<double>>>
      parts;
  std::map<std::tuple<OpKind, std::int64_t, Index>, std::vector<double>> collectives;
  std::vector<double> steps;
};

// Who comes first to a collective waits because others compute longer: such waits grow with what is
// computed and not with what is sent, so they are shares of the parts.
void add_step(const std::vector<Interval>& spans, Time begin, Time end,
              const std::vector<storage::CommunicatorRow>& communicators, Samples& samples) {
  Taken taken;
  std::map<std::pair<std::string, Phase>, std::pair<double, double>> parts;
  double computed = 0, waited = 0;
  for (const Interval& span : spans) {
    if (is_collective(span.op->kind)) continue;
    auto& [count, ns] =
        parts[{std::string(sim::part_of(span.op->module, span.op->reason)), span.op->phase}];
    const Time own = taken.take(span.begin, span.end);
    count += 1;
    ns += static_cast<double>(own);
    computed += static_cast<double>(own);
  }
  for (const Interval& span : spans) {
    if (!is_collective(span.op->kind)) continue;
    waited += static_cast<double>(taken.take(span.begin, span.ready));
    const Time own = taken.take(span.ready, span.end);
    Index group = 1;
    for (const auto& communicator : communicators) {
      if (communicator.id == span.op->communicator) group = communicator.group_size;
    }
    samples.collectives[{span.op->kind, span.op->bytes.value, group}].push_back(
        static_cast<double>(own) / 1e3);
  }
  const double longer = computed > 0 ? 1 + waited / computed : 1;
  for (const auto& [key, sum] : parts) {
    samples.parts[key].first.push_back(sum.first);
    samples.parts[key].second.push_back(sum.second * longer);
  }
  samples.steps.push_back(static_cast<double>(end - begin));
}

Status add_rank(const storage::TraceReader& reader, const std::vector<OpRow>& ops,
                const storage::RankSteps& steps, Rank rank, Samples& samples) {
  TESSERA_ASSIGN(const std::vector<Lane> lanes, reader.lanes(rank, 0, reader.info().end + 1));
  std::map<std::int32_t, const OpRow*> by_id;
  for (const OpRow& op : ops) by_id[op.id] = &op;
  std::vector<std::vector<Interval>> of_step(static_cast<std::size_t>(steps.steps));
  for (const Lane& lane : lanes) {
    for (std::size_t k = 0; k < lane.op.size(); ++k) {
      const auto op = by_id.find(lane.op[k]);
      if (op == by_id.end() || op->second->step >= steps.steps) continue;
      of_step[static_cast<std::size_t>(op->second->step)].push_back(
          {lane.begin[k], lane.ready[k], lane.end[k], op->second});
    }
  }
  for (std::int32_t step = 1; step < steps.steps; ++step) {
    auto& spans = of_step[static_cast<std::size_t>(step)];
    std::sort(spans.begin(), spans.end(),
              [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
    const auto at = static_cast<std::size_t>(step) * static_cast<std::size_t>(steps.ranks) +
                    static_cast<std::size_t>(rank);
    add_step(spans, steps.begin[at], steps.end[at], reader.info().communicators, samples);
  }
  return {};
}

void keep_typical(const Samples& samples, RunTrace& out) {
  out.step_ns = typical(samples.steps);
  out.idle_ns = out.step_ns;
  for (const auto& [key, found] : samples.parts) {
    out.parts.push_back({key.first, key.second, typical(found.first), typical(found.second)});
    out.idle_ns -= out.parts.back().ns;
  }
  for (const auto& [key, us] : samples.collectives) {
    const auto& [kind, bytes, group] = key;
    if (group < 2 || bytes < 1) continue;
    const double each = std::max(0.1, typical(us));
    const double count = static_cast<double>(us.size()) / static_cast<double>(samples.steps.size());
    out.idle_ns -= count * each * 1e3;
    out.collectives.push_back({{kind, Bytes{bytes}, group, 1, group}, each});
  }
  out.idle_ns = std::max(0.0, out.idle_ns);
}

}  // namespace

Result<RunTrace> read_run_trace(const std::string& path) {
  TESSERA_ASSIGN(const auto reader, storage::TraceReader::open(path));
  RunTrace out;
  out.path = path;
  out.run = reader.info().run;
  if (out.run.backend == "simulator") {
    return Status(Code::invalid_argument,
                  fmt::format("{}: was simulated: calibrate by runs of real processes", path));
  }
  if (reader.info().steps < steps_min) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: has {} steps: record at least {}, better 20", path,
                              reader.info().steps, steps_min));
  }
  TESSERA_ASSIGN(DescribedRun described, described_run(reader, path));
  out.model = std::move(described.model);
  out.scheme = std::move(described.scheme);
  out.training = std::move(described.training);
  TESSERA_ASSIGN(const nlohmann::json options, parse_json(out.run.options, path + ": options"));
  JsonReader said(options, path + ": options");
  out.threads = said.integer("threads", 0, 0);
  out.fp8 = said.text("matmul_dtype", "") == "fp8";
  TESSERA_ASSIGN(const auto ops, reader.ops());
  TESSERA_ASSIGN(const auto steps, reader.rank_steps());
  Samples samples;
  for (const Rank rank : out.run.recorded_ranks) {
    TESSERA_TRY(add_rank(reader, ops, steps, rank, samples));
  }
  keep_typical(samples, out);
  return out;
}

}  // namespace tessera::cli
