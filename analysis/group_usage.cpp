// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/group_usage.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/analysis/collectives.h"
#include "tessera/analysis/median.h"

namespace tessera::analysis {
namespace {

struct Sum {
  GroupUsage usage;
  std::vector<double> algorithm_rates, bus_rates;
  std::pair<Time, Time> costliest{-1, -1};  // exposed, duration
};

/// Calls `each(op, lane, index)` for collectives that begin in the range.
template <class Each>
void collectives_between(const Trace& trace, Lanes lanes, Time from, Time to, Each each) {
  for (const storage::Lane* lane : lanes) {
    const auto first = std::lower_bound(lane->begin.begin(), lane->begin.end(), from);
    for (auto i = static_cast<std::size_t>(first - lane->begin.begin());
         i < lane->begin.size() && lane->begin[i] < to; ++i) {
      const storage::OpRow& op = trace.op(lane->op[i]);
      if (is_collective(op.kind)) each(op, *lane, i);
    }
  }
}

void add_collective(const Trace& trace, Lanes compute, const storage::OpRow& op,
                    const storage::Lane& lane, std::size_t i, Sum& sum) {
  const SpanFacts facts = facts_of(trace, compute, lane, i);
  GroupUsage& usage = sum.usage;
  ++usage.count;
  usage.bytes += op.bytes;
  usage.wait += facts.wait;
  usage.transfer += facts.transfer;
  usage.exposed += facts.exposed;
  if (facts.bus_bandwidth > 0) {
    sum.bus_rates.push_back(facts.bus_bandwidth);
    sum.algorithm_rates.push_back(static_cast<double>(op.bytes.value) /
                                  static_cast<double>(facts.transfer) * 1e9);
  }
  const std::pair cost{facts.exposed, facts.duration};
  if (cost <= sum.costliest) return;
  sum.costliest = cost;
  usage.costliest = op.id;
}

}  // namespace

struct UsageSum::Sums {
  std::map<std::tuple<std::int32_t, OpKind, std::string>, Sum> groups;
  std::vector<TransferPoint> points;
};

UsageSum::UsageSum() : sums_(std::make_unique<Sums>()) {}
UsageSum::~UsageSum() = default;

void UsageSum::add(const Trace& trace, Lanes lanes, Lanes compute, Time from, Time to) {
  collectives_between(trace, lanes, from, to,
                      [&](const storage::OpRow& op, const storage::Lane& lane, std::size_t i) {
                        add_collective(trace, compute, op, lane, i,
                                       sums_->groups[{op.communicator, op.kind, op.algorithm}]);
                        const double rate = bus_bandwidth(trace, op, lane.end[i] - lane.ready[i]);
                        if (rate > 0) sums_->points.push_back({op.bytes, rate, op.kind, op.id});
                      });
}

std::vector<GroupUsage> UsageSum::rows(const Trace& trace) const {
  std::vector<GroupUsage> rows;
  for (const auto& [key, sum] : sums_->groups) {
    GroupUsage usage = sum.usage;
    const auto& [communicator, kind, algorithm] = key;
    for (const auto& row : trace.info().communicators) {
      if (row.id != communicator) continue;
      usage.group = row.name;
      usage.group_size = row.group_size;
    }
    usage.kind = kind;
    usage.algorithm = algorithm;
    if (!sum.bus_rates.empty()) {
      usage.bus_bandwidth = median(sum.bus_rates);
      usage.algorithm_bandwidth = median(sum.algorithm_rates);
    }
    rows.push_back(std::move(usage));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const GroupUsage& a, const GroupUsage& b) {
    return std::pair(a.exposed, a.transfer) > std::pair(b.exposed, b.transfer);
  });
  return rows;
}

std::vector<TransferPoint> UsageSum::points(std::size_t count) const {
  const std::vector<TransferPoint>& all = sums_->points;
  if (all.size() <= count) return all;
  std::vector<TransferPoint> chosen;
  for (std::size_t k = 0; k < count; ++k) chosen.push_back(all[k * all.size() / count]);
  return chosen;
}

std::vector<GroupUsage> group_usage(const Trace& trace, Lanes lanes, Lanes compute, Time from,
                                    Time to) {
  UsageSum sum;
  sum.add(trace, lanes, compute, from, to);
  return sum.rows(trace);
}

std::vector<TransferPoint> transfer_points(const Trace& trace, Lanes lanes, Time from, Time to,
                                           std::size_t count) {
  UsageSum sum;
  sum.add(trace, lanes, {}, from, to);
  return sum.points(count);
}

}  // namespace tessera::analysis
