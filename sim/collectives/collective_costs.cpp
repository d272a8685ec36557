// SPDX-License-Identifier: Apache-2.0
#include "sim/collectives/collective_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/collectives/choice.h"
#include "sim/time/duration.h"

namespace tessera::sim {
namespace {

std::string text_of(const CollectivePlan& plan) {
  if (plan.protocol.empty()) return plan.algorithm;
  return fmt::format("{} {}, {} channels", plan.algorithm, plan.protocol, plan.channels);
}

CollectivePlan modelled(const Cluster& cluster, const CollectiveShape& shape) {
  const ChannelPlan channels = find_channels(cluster, shape);
  CollectivePlan plan;
  if (shape.kind == OpKind::all_to_all) {
    plan.algorithm = "Direct";
    plan.channels = channels.blocks;
    plan.time = to_time(all_to_all_us(cluster, shape, channels.crowding) * 1e3);
    return plan;
  }
  const bool one_node = shape.nodes <= 1;
  const Constants constants = constants_of(cluster.nccl, one_node);
  const Task task{shape.kind,
                  static_cast<double>(shape.ranks),
                  shape.nodes,
                  static_cast<double>(shape.ranks) / shape.nodes,
                  shape.ranks / shape.nodes,
                  cluster.nccl,
                  cluster.nvls,
                  constants,
                  channels};
  const Choice choice = choose(task, shape.bytes.value);
  plan.algorithm = name_of(choice.algorithm);
  plan.protocol = name_of(choice.protocol);
  plan.channels = choice.channels;
  plan.nccl_us = choice.estimate.latency + choice.estimate.transfer;
  plan.time = to_time(measured_us(cluster, task, choice.algorithm, choice.protocol, choice.estimate,
                                  shape.bytes.value) *
                      1e3);
  return plan;
}

}  // namespace

// What was measured of a size says nothing of one 16 times as far away, unless both are so large
// that only bandwidth counts, or so small that only latency does.
double MeasuredFactors::beyond(std::size_t k, Bytes size) const {
  constexpr double far = 16, large = 1 << 20, small = 32 << 10;
  const auto known = static_cast<double>(bytes[k].value);
  const auto asked = static_cast<double>(std::max<std::int64_t>(size.value, 1));
  if ((known >= large && asked >= large) || (known <= small && asked <= small)) return factors[k];
  const double share = (std::max(known / asked, asked / known) - 1) / (far - 1);
  return share >= 1 ? 1 : factors[k] + (1 - factors[k]) * share;
}

double MeasuredFactors::at(Bytes size) const {
  const auto after = std::lower_bound(bytes.begin(), bytes.end(), size);
  if (after == bytes.end()) return beyond(bytes.size() - 1, size);
  const auto k = static_cast<std::size_t>(after - bytes.begin());
  if (*after == size) return factors[k];
  if (k == 0) return beyond(0, size);
  const auto root = [](Bytes b) { return std::sqrt(static_cast<double>(b.value)); };
  const double share = (root(size) - root(bytes[k - 1])) / (root(bytes[k]) - root(bytes[k - 1]));
  return factors[k - 1] + share * (factors[k] - factors[k - 1]);
}

CollectivePlan plan_collective(const Cluster& cluster, const CollectiveShape& shape) {
  if (shape.ranks <= 1) return {.algorithm = "none"};
  CollectivePlan plan = modelled(cluster, shape);
  for (const MeasuredFactors& found : cluster.measured) {
    if (found.kind != shape.kind || found.ranks != shape.ranks || found.nodes != shape.nodes) {
      continue;
    }
    plan.time = std::llround(found.at(shape.bytes) * static_cast<double>(plan.time));
  }
  return plan;
}

const CollectiveCosts::Known& CollectiveCosts::find(const CollectiveShape& shape) const {
  const Key key{shape.kind,  shape.bytes.value,    shape.ranks,
                shape.nodes, shape.ranks_per_node, shape.fewest_per_node};
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  Known known;
  known.plan = plan_collective(cluster_, shape);
  known.text = text_of(known.plan);
  return known_.emplace(key, std::move(known)).first->second;
}

}  // namespace tessera::sim
