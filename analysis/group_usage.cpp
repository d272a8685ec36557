// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/group_usage.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/blocking_times.h"
#include "analysis/link_limits.h"
#include "analysis/operation_name.h"
#include "tessera/analysis/collectives.h"
#include "tessera/analysis/median.h"

namespace tessera::analysis {
namespace {

struct Sum {
  GroupUsage usage;
  std::vector<double> algorithm_rates, bus_rates;
  std::pair<Time, Time> costliest{-1, -1};  // exposed, duration
};

/// Calls `each(op, lane, index)` for what begins in the range.
template <class Each>
void spans_between(const Trace& trace, Lanes lanes, Time from, Time to, Each each) {
  for (const storage::Lane* lane : lanes) {
    const auto first = std::lower_bound(lane->begin.begin(), lane->begin.end(), from);
    for (auto i = static_cast<std::size_t>(first - lane->begin.begin());
         i < lane->begin.size() && lane->begin[i] < to; ++i) {
      each(trace.op(lane->op[i]), *lane, i);
    }
  }
}

void add_span(const Trace& trace, Lanes compute, const storage::OpRow& op,
              const storage::Lane& lane, std::size_t i, Sum& sum) {
  const SpanFacts facts = facts_of(trace, compute, lane, i);
  GroupUsage& usage = sum.usage;
  ++usage.count;
  usage.bytes += op.bytes;
  usage.duration += facts.duration;
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
  /// Communicator, kind, algorithm, name; what rows do not tell apart is alike in all of them.
  using Key = std::tuple<std::int32_t, OpKind, std::string, std::string>;
  Key key_of(const storage::OpRow& op) const {
    switch (by) {
      case UsageBy::unit: return {-1, op.kind, "", op.unit};
      case UsageBy::operation: return {-1, OpKind::compute, "", operation_of(op)};
      case UsageBy::group: break;
    }
    return {op.communicator, op.kind, op.algorithm, ""};
  }

  UsageBy by;
  std::map<Key, Sum> groups;
  std::vector<TransferPoint> points;
};

UsageSum::UsageSum(UsageBy by) : sums_(new Sums{by, {}, {}}) {}
UsageSum::~UsageSum() = default;

void UsageSum::add(const Trace& trace, Lanes lanes, Lanes compute, Time from, Time to) {
  const LinkLimits limits(trace.run());
  // Who waited for what begins in the range may begin after it.
  const BlockingTimes blocking(trace, lanes, compute, from);
  spans_between(trace, lanes, from, to,
                [&](const storage::OpRow& op, const storage::Lane& lane, std::size_t i) {
                  const bool collective = is_collective(op.kind);
                  if (!collective && sums_->by != UsageBy::operation) return;
                  Sum& sum = sums_->groups[sums_->key_of(op)];
                  sum.usage.kind = op.kind;
                  add_span(trace, compute, op, lane, i, sum);
                  if (!collective) return;
                  if (blocking.known()) {
                    sum.usage.blocking = std::max<Time>(0, sum.usage.blocking) + blocking.of(op.id);
                  }
                  const double rate = bus_bandwidth(trace, op, lane.end[i] - lane.ready[i]);
                  const storage::CommunicatorRow* const group = trace.communicator(op);
                  const double most = group == nullptr ? 0 : limits.of(op, *group);
                  if (sums_->by == UsageBy::group) sum.usage.link_bandwidth = most;
                  if (rate > 0) sums_->points.push_back({op.bytes, rate, most, op.kind, op.id});
                });
}

std::vector<GroupUsage> UsageSum::rows(const Trace& trace) const {
  std::vector<GroupUsage> rows;
  for (const auto& [key, sum] : sums_->groups) {
    GroupUsage usage = sum.usage;
    const auto& [communicator, kind, algorithm, name] = key;
    for (const auto& row : trace.info().communicators) {
      if (row.id != communicator) continue;
      usage.group = row.name;
      usage.group_size = row.group_size;
    }
    usage.name = name;
    usage.algorithm = algorithm;
    if (!sum.bus_rates.empty()) {
      usage.bus_bandwidth = median(sum.bus_rates);
      usage.algorithm_bandwidth = median(sum.algorithm_rates);
    }
    rows.push_back(std::move(usage));
  }
  const bool by_time = sums_->by == UsageBy::operation;
  std::stable_sort(rows.begin(), rows.end(), [&](const GroupUsage& a, const GroupUsage& b) {
    if (by_time) return a.duration > b.duration;
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
                                    Time to, UsageBy by) {
  UsageSum sum(by);
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
