// SPDX-License-Identifier: Apache-2.0
#include "sim/collectives/measured.h"

#include <algorithm>
#include <cmath>

#include "sim/network/fabrics.h"

namespace tessera::sim {
namespace {

// The constants of NCCL that a cluster file gives as measured.
constexpr double ring_ll_base_us = 6.6;
constexpr double ring_ll128_step_us = 1.9;
constexpr double ring_ll128_network_step_us = 4;

// Of what a ring reaches on NVLink, what many small connections do: HGX boards with A100, H100,
// B200. One connection fills PCIe.
constexpr double pieces_share = 0.85;
// What the channels of one pair carry: two B200 send each other 313 to 331 GB/s, eight 560 each.
constexpr double pair_bytes_per_s = 330e9;
// Parts from this size on go by Simple, whose start and step are slower than those of LL. Where
// launches are late the host hides as much of it.
constexpr double simple_part_bytes = 32 << 10;
constexpr double simple_extra_us = 8.4 - 6.6 + 3.4;
constexpr double early_launch_us = 5.5;

double us(double ns) { return ns / 1e3; }
double us(Time ns) { return static_cast<double>(ns) / 1e3; }

double gain(const Link& link) { return link.efficiency / link.nccl_share; }

double root_of_mib(std::int64_t bytes) { return std::sqrt(static_cast<double>(bytes) / (1 << 20)); }

// How often a byte waits for others where GPUs share one path, that of their socket or that between
// sockets.
double queue(const Link& link, double members) {
  if (!(link.shared_bytes_per_s > 0) || members <= link.switch_gpus) return 1;
  const bool sockets = link.sockets_bytes_per_s > 0 && members > link.socket_gpus;
  const double path = sockets ? link.sockets_bytes_per_s : link.shared_bytes_per_s;
  const bool apart = !sockets && link.socket_gpus > 0;
  const double sharing = apart ? std::min<double>(members, link.socket_gpus) : members;
  return std::max(1.0, sharing * link.bytes_per_s * link.efficiency / path);
}

struct Steps {
  double inside = 0;
  double between = 0;
};

Steps steps_of(const Task& task, Algorithm algorithm) {
  const double levels = task.one_node() ? 0 : log2_floor(task.nodes);
  switch (algorithm) {
    case Algorithm::ring: {
      const double rounds = task.kind == OpKind::all_reduce ? 2 : 1;
      const double between = task.nodes - 1;
      return {rounds * (task.ranks - 1 - between), rounds * between};
    }
    case Algorithm::tree: return {2.0 * (task.chain - 1), 2 * levels};
    case Algorithm::nvls_tree: return {0, 2 * levels};
    case Algorithm::pat: return {0, levels};
    case Algorithm::collnet_chain: return {2.0 * (task.chain - 1), 1};
    case Algorithm::collnet_direct:
    case Algorithm::nvls: return {0, task.one_node() ? 0.0 : 1.0};
  }
  return {};
}

// NCCL leaves out how long the first bytes of a broadcast or reduce travel.
double first_bytes(const Task& task, Protocol protocol, const Steps& steps) {
  if (task.kind != OpKind::broadcast && task.kind != OpKind::reduce) return 0;
  return steps.inside * task.hop(task.inside(), Algorithm::ring, protocol) +
         steps.between * task.hop(Hop::network, Algorithm::ring, protocol);
}

double within_node(const Cluster& cluster, const Task& task, Algorithm algorithm, Protocol protocol,
                   double transfer, std::int64_t bytes) {
  const Link& link = cluster.intra_node;
  const double root = root_of_mib(bytes);
  if (algorithm == Algorithm::nvls) {
    return transfer / cluster.nvls.share + us(cluster.nvls.sqrt_ns) * std::max(0.0, root - 1);
  }
  const double whole_way = transfer * (1 + link.end_steps / task.steps());
  if (protocol != Protocol::simple) return whole_way * queue(link, task.ranks) / link.ll_share;
  return whole_way * queue(link, task.ranks) / gain(link) + us(link.sqrt_ns) * root;
}

// What a message takes on the links between nodes, beside what NCCL counts on.
double over_network(const Link& link, Algorithm algorithm, Protocol protocol, double transfer) {
  const bool simple = protocol == Protocol::simple;
  const bool tree = algorithm == Algorithm::tree;
  double share = simple ? 1 : link.ll_share;
  if (tree) share *= simple ? link.tree_share : link.tree_ll_share;
  return transfer / (gain(link) * share);
}

// Two nodes that reduce within exchange their sums, and a byte leaves each once; among more it goes
// up a tree and down again, or around a ring.
double out_of_node(const Task& task, Algorithm algorithm, std::int64_t bytes, double bytes_per_s) {
  const bool exchanged = task.nodes <= 2 && algorithm != Algorithm::ring;
  const double times = exchanged ? 1 : task.steps() / task.ranks;
  return static_cast<double>(bytes) * times / bytes_per_s * 1e6;
}

// A ring or tree between nodes goes through all GPUs of each, so that no network makes it faster
// than their own links: what every GPU passes on takes so long inside of its node.
double inside_of_nodes(const Link& link, const Task& task, std::int64_t bytes) {
  const double steps = task.steps();
  const double passed = static_cast<double>(bytes) * (steps + link.end_steps) / task.ranks;
  return passed * queue(link, task.chain) / (link.bytes_per_s * link.efficiency) * 1e6;
}

double between_nodes(const Cluster& cluster, const Task& task, Algorithm algorithm,
                     Protocol protocol, double transfer, std::int64_t bytes) {
  const Link& between = cluster.inter_node;
  // A ring, or a tree, leaves a pod once.
  const double left = task.plan.crowding * beyond_pods(between, task.nodes, 1);
  const double root = us(between.sqrt_ns) * root_of_mib(bytes);
  const double shared = between.shared_bytes_per_s;
  double time = shared > 0 ? out_of_node(task, algorithm, bytes, shared) : 0;
  if (algorithm == Algorithm::nvls_tree) {
    // NVLink SHARP does within nodes what it was measured to do, and NICs carry what leaves them.
    const double nics = task.per_node * between.bytes_per_s * between.efficiency * left;
    time = std::max(time, out_of_node(task, algorithm, bytes, nics));
    return root + std::max(time, transfer / cluster.nvls.share);
  }
  time = std::max(time, over_network(between, algorithm, protocol, transfer) / left);
  const bool passes = algorithm == Algorithm::ring || algorithm == Algorithm::tree;
  if (passes && task.chain > 1) {
    time = std::max(time, inside_of_nodes(cluster.intra_node, task, bytes));
  }
  const bool filled = algorithm == Algorithm::tree && protocol == Protocol::simple;
  return root + time + (filled ? us(between.tree_ns) : 0);
}

}  // namespace

double measured_us(const Cluster& cluster, const Task& task, Algorithm algorithm, Protocol protocol,
                   const Estimate& estimate, std::int64_t bytes) {
  const Link& inside = cluster.intra_node;
  const Link& between = cluster.inter_node;
  const Steps steps = steps_of(task, algorithm);
  double time = estimate.latency + first_bytes(task, protocol, steps);
  time += us(cluster.collective_launch_ns) - ring_ll_base_us;
  time += steps.inside * (us(inside.latency_ns) - ring_ll128_step_us);
  if (task.one_node()) {
    time += within_node(cluster, task, algorithm, protocol, estimate.transfer, bytes);
  } else {
    time += us(between.launch_ns) +
            steps.between * (us(between.latency_ns) - ring_ll128_network_step_us);
    time += between_nodes(cluster, task, algorithm, protocol, estimate.transfer, bytes);
  }
  return std::max({time, us(cluster.collective_floor_ns), 1.0});
}

// Every member sends a part to every other one at once; the way out of the node is each GPU's share
// of the NICs. Its own part a member copies.
double all_to_all_us(const Cluster& cluster, const CollectiveShape& shape, double crowding) {
  const Link& inside = cluster.intra_node;
  const Link& out = cluster.inter_node;
  const double part = static_cast<double>(shape.bytes.value) / shape.ranks;
  const double near = shape.ranks_per_node - 1 + inside.end_steps / 2;
  const double far = shape.ranks - shape.ranks_per_node;
  const double reached =
      cluster.nccl.nvlink ? pieces_share : 1 / queue(inside, shape.ranks_per_node);
  const double link = inside.bytes_per_s * inside.efficiency * reached;
  const double inside_us = part * std::max(near / link, 1 / pair_bytes_per_s) * 1e6;
  // Of what a pod's nodes send, most leaves it where there are many pods.
  const double leaving = static_cast<double>(out.nodes_per_pod) *
                         (shape.nodes - out.nodes_per_pod) / std::max(1, shape.nodes - 1);
  const double left = crowding * beyond_pods(out, shape.nodes, leaving);
  const double out_us = far * part / (out.bytes_per_s * out.efficiency * left) * 1e6;
  double time = us(cluster.collective_launch_ns) + us(inside.latency_ns) +
                std::max(inside_us, out_us) + us(inside.sqrt_ns) * root_of_mib(shape.bytes.value);
  const double late = us(cluster.collective_launch_ns) - early_launch_us;
  if (part >= simple_part_bytes) time += std::max(0.0, simple_extra_us - std::max(0.0, late));
  if (far > 0) {
    time +=
        us(out.launch_ns) + us(out.latency_ns) + us(out.sqrt_ns) * root_of_mib(shape.bytes.value);
  }
  return std::max({time, us(cluster.collective_floor_ns), 1.0});
}

}  // namespace tessera::sim
