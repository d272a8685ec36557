// SPDX-License-Identifier: Apache-2.0
#include "sim/network/channels.h"

#include <algorithm>
#include <array>
#include <span>

namespace tessera::sim {
namespace {

constexpr int channels_max = 32;  // before they are doubled
constexpr int heads_max = 16;     // an assumption where NVLink joins more GPUs than a board has
constexpr double whole = 1e-9;    // a quotient that should be whole may lack as much

// Speeds that the search tries, GB/s per channel (search.cc, v2.28.9).
constexpr std::array inside_before_hopper = {40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0,
                                             9.0,  7.0,  6.0,  5.0,  4.0,  3.0};
constexpr std::array inside_hopper = {60.0, 50.0, 40.0, 30.0, 24.0, 20.0,
                                      15.0, 12.0, 11.0, 6.0,  3.0};
constexpr std::array inside_blackwell = {90.0, 80.0, 70.0, 60.0, 50.0, 40.0,
                                         30.0, 24.0, 20.0, 19.0, 18.0};
constexpr std::array between_before_hopper = {48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0,
                                              12.0, 10.0, 9.0,  7.0,  6.0,  5.0,  4.0,
                                              3.0,  2.4,  1.2,  0.24, 0.12};
constexpr std::array between_hopper = {48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5,
                                       15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};
constexpr std::array between_blackwell = {96.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0,
                                          17.5, 15.0, 12.0, 6.0,  3.0,  2.4,  1.2,  0.24, 0.12};

std::span<const double> speeds_of(int compute_capability, bool several_nodes) {
  if (compute_capability >= 100) {
    if (several_nodes) return between_blackwell;
    return inside_blackwell;
  }
  if (compute_capability >= 90) {
    if (several_nodes) return between_hopper;
    return inside_hopper;
  }
  if (several_nodes) return between_before_hopper;
  return inside_before_hopper;
}

int times(double rate, double speed) { return static_cast<int>(rate / speed + whole); }

struct Search {
  const Cluster& cluster;
  std::span<const double> speeds;
  int members;  // on the node that has fewest
  bool one_node;
  double gpu;      // what one GPU's link within the node carries, GB/s
  double nic;      // what one NIC carries
  int nics;        // that the members use
  double passing;  // the same link, where a ring leaves the node at one GPU of its members

  int fit(double speed) const {
    if (one_node) return std::min(times(gpu, speed), channels_max);
    const int over_network = times(nic, speed) * nics;
    const int over_links = members > 1 ? times(passing, speed) : channels_max;
    return std::min({over_network, over_links, channels_max});
  }

  // The first product of count and speed that no later one beats; slower than half is not tried.
  Channels ring() const {
    Channels best;
    for (const double speed : speeds) {
      if (best.count > 0 && speed / best.inside <= 0.49) break;
      const int count = fit(speed);
      if (count * speed > best.count * best.inside + whole) best = {count, speed, speed};
    }
    if (best.count == 0) return {1, 0.1, 0.1};  // as NCCL falls back
    const int capability = cluster.nccl.compute_capability;
    const bool as_they_are =
        best.inside < 25 || (capability > 80 && best.inside < 50 && best.count > 4);
    if (as_they_are) return best;
    const int doubled = std::min(2 * best.count, channels_max);
    const int copies = (doubled + best.count - 1) / best.count;
    return {doubled, best.inside / copies, best.between / copies};
  }

  // As many channels as rings; within the node as fast as links allow, up to twice the network.
  Channels tree(const Channels& ring) const {
    Channels found = ring;
    if (one_node) {
      found.inside = speeds.back();
      for (const double speed : speeds) {
        if (speed * ring.count > gpu + whole) continue;
        found.inside = speed;
        break;
      }
      found.between = found.inside;
      return found;
    }
    const double limit = members > 1 ? passing / ring.count : speeds.front();
    raise(found.inside, 2 * ring.inside, limit);
    return found;
  }

  // A head pulls from every member and pushes to itself, too.
  Channels nvls() const {
    if (!(cluster.nvls.share > 0) || cluster.nccl.compute_capability < 90 || members < 2) return {};
    Channels found;
    found.count = std::min(one_node ? members : std::min(members, nics), heads_max);
    for (const double speed : speeds) {
      if (speed * (found.count + 1) > gpu + whole) continue;
      found.inside = found.between = speed;
      raise(found.between, 2 * speed, one_node ? speeds.front() : nic);
      return found;
    }
    return {};
  }

  // To the next speed, as long as it is below `enough`, and none above `limit`.
  void raise(double& speed, double enough, double limit) const {
    for (auto next = speeds.rbegin(); next != speeds.rend(); ++next) {
      if (*next > speed && speed < enough && *next <= limit + whole) speed = *next;
    }
  }
};

}  // namespace

ChannelPlan find_channels(const Cluster& cluster, const CollectiveShape& shape) {
  const NcclFacts& facts = cluster.nccl;
  const bool one_node = shape.nodes <= 1;
  const Index members = shape.fewest_per_node > 0 ? shape.fewest_per_node : shape.ranks_per_node;
  const Index nics = facts.nics_per_node > 0 ? facts.nics_per_node : cluster.gpus_per_node;
  const Link& out = cluster.inter_node;
  const double per_node = out.bytes_per_s * out.nccl_share * cluster.gpus_per_node / 1e9;
  const double gpu = cluster.intra_node.bytes_per_s * cluster.intra_node.nccl_share / 1e9;
  const double own_nics = static_cast<double>(nics) * members / cluster.gpus_per_node;
  // Over PCIe all channels of a node cross the same bridge.
  const double passing = facts.nvlink && members > 1 ? gpu * members / (members - 1) : gpu;
  const Search search{cluster,
                      speeds_of(facts.compute_capability, !one_node),
                      static_cast<int>(members),
                      one_node,
                      gpu,
                      per_node / nics,
                      static_cast<int>(std::max(1.0, own_nics)),
                      passing};
  ChannelPlan plan;
  plan.ring = search.ring();
  plan.tree = search.tree(plan.ring);
  plan.nvls = search.nvls();
  plan.simple_tree = !one_node && (facts.compute_capability >= 90 || members == 1);
  plan.blocks = std::min(2 * plan.ring.count, 2 * channels_max);
  if (facts.compute_capability >= 90 && !one_node && plan.ring.inside > 45 && plan.blocks < 16) {
    plan.blocks *= 2;  // connect.cc: four channels' kernels to a found one
  }
  plan.crowding = one_node ? 1 : std::min(1.0, own_nics);
  return plan;
}

}  // namespace tessera::sim
