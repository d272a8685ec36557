// SPDX-License-Identifier: Apache-2.0
// Roofline compute and alpha-beta rings (Thakur, Rabenseifner, Gropp 2005, "Optimization of
// Collective Communication Operations in MPICH", section 3; what NCCL does is in
// docs/simulator.md).
#include <algorithm>
#include <cmath>

#include "tessera/sim/cost_model.h"

namespace tessera::sim {
namespace {

constexpr double ns_per_s = 1e9;
// 46 days: what a slower machine would need stays countable over many operations.
constexpr double duration_ns_max = 4e15;

Time to_time(double ns) { return std::llround(std::min(ns, duration_ns_max)); }

class RingCostModel final : public CostModel {
 public:
  explicit RingCostModel(const Cluster& cluster) : cluster_(cluster) {}

  Time compute(const ComputeCost& cost) const override {
    const Gpu& gpu = cluster_.gpu;
    if (cost.on_host) return to_time(cost.elementwise_bytes / host_memory() * ns_per_s);
    const double peak = cost.dtype == DType::float32 ? gpu.fp32_flops_per_s : gpu.bf16_flops_per_s;
    const double seconds = cost.matmul_flops / (peak * gpu.matmul_efficiency) +
                           cost.attention_flops / (peak * gpu.attention_efficiency) +
                           cost.elementwise_bytes / hbm();
    return to_time(seconds * ns_per_s) + cost.kernels * gpu.kernel_launch_ns;
  }

  Time copy(Bytes bytes, CopyRoute route) const override {
    const auto size = static_cast<double>(bytes.value);
    switch (route) {
      case CopyRoute::on_device:
        return to_time(2 * size / hbm() * ns_per_s) + cluster_.gpu.kernel_launch_ns;
      case CopyRoute::to_host:
      case CopyRoute::to_device: return over_host_link(size);
      case CopyRoute::on_host: return to_time(2 * size / host_memory() * ns_per_s);
      case CopyRoute::to_nvme: return over_nvme(size, cluster_.nvme.write_bytes_per_s);
      case CopyRoute::from_nvme: return over_nvme(size, cluster_.nvme.read_bytes_per_s);
      case CopyRoute::device_to_nvme: return over_nvme(size, cluster_.nvme.direct_write());
      case CopyRoute::nvme_to_device: return over_nvme(size, cluster_.nvme.direct_read());
    }
    return 0;
  }

  Time collective(const CollectiveShape& shape) const override {
    if (shape.ranks <= 1) return 0;
    const double n = shape.ranks;
    if (shape.kind == OpKind::all_to_all) return all_to_all(shape);
    const bool both_ways = shape.kind == OpKind::all_reduce;  // reduce_scatter, then all_gather
    const bool pipelined = shape.kind == OpKind::broadcast || shape.kind == OpKind::reduce;
    const double rounds = both_ways ? 2 : 1;
    // Of the n - 1 steps of a round, nodes - 1 wait for the network (NCCL's tuning.cc counts
    // alike).
    const double between = shape.nodes - 1;
    const double within = n - 1 - between;
    const double latency_ns =
        rounds * (within * static_cast<double>(cluster_.intra_node.latency_ns) +
                  between * static_cast<double>(cluster_.inter_node.latency_ns));
    const double volume =
        static_cast<double>(shape.bytes.value) * (pipelined ? 1.0 : rounds * (n - 1) / n);
    return cluster_.collective_launch_ns +
           to_time(latency_ns + volume / bus_bandwidth(shape) * ns_per_s);
  }

  std::string_view algorithm(const CollectiveShape& shape) const override {
    return shape.kind == OpKind::all_to_all ? "direct" : "ring";
  }

 private:
  double hbm() const { return cluster_.gpu.memory_bytes_per_s * cluster_.gpu.memory_efficiency; }

  static double effective(const Link& link) { return link.bytes_per_s * link.efficiency; }

  // What a node has once its GPUs share evenly: all ranks do the same at the same time.
  double share(double per_node) const { return per_node / cluster_.gpus_per_node; }

  double host_memory() const { return share(cluster_.host_memory.bytes_per_s); }

  // Behind its link a copy takes turns with those of the other GPUs. The sum of both times agrees
  // with what 1, 2 and 4 GPUs were measured to reach; the larger of both does not.
  Time over_host_link(double bytes) const {
    const double shared = cluster_.host_memory.links_bytes_per_s;
    const double seconds =
        bytes / effective(cluster_.host) + (shared > 0 ? bytes / share(shared) : 0);
    return cluster_.host.latency_ns + to_time(seconds * ns_per_s);
  }

  Time over_nvme(double bytes, double bytes_per_s) const {
    if (!(bytes_per_s > 0)) return to_time(duration_ns_max);
    return cluster_.nvme.latency_ns + to_time(bytes / share(bytes_per_s) * ns_per_s);
  }

  // Every member sends a part to every other one; the way out of the node is each GPU's own NIC.
  Time all_to_all(const CollectiveShape& shape) const {
    const double part = static_cast<double>(shape.bytes.value) / shape.ranks;
    const double within = shape.ranks_per_node - 1;
    const double between = shape.ranks - shape.ranks_per_node;
    const double seconds = std::max(within * part / effective(cluster_.intra_node),
                                    between * part / effective(cluster_.inter_node));
    const Link& farthest = between > 0 ? cluster_.inter_node : cluster_.intra_node;
    return cluster_.collective_launch_ns + farthest.latency_ns + to_time(seconds * ns_per_s);
  }

  // Every GPU has a NIC of its own, and the rings of a group use those of all its members on a
  // node. A group with one member per node never touches NVLink.
  double bus_bandwidth(const CollectiveShape& shape) const {
    const double inside = effective(cluster_.intra_node);
    if (shape.nodes <= 1) return inside;
    const double outside = effective(cluster_.inter_node) * shape.ranks_per_node;
    return shape.ranks_per_node == 1 ? outside : std::min(inside, outside);
  }

  const Cluster cluster_;
};

}  // namespace

std::unique_ptr<CostModel> make_cost_model(const Cluster& cluster) {
  return std::make_unique<RingCostModel>(cluster);
}

}  // namespace tessera::sim
