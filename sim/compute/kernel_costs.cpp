// SPDX-License-Identifier: Apache-2.0
#include "sim/compute/kernel_costs.h"

#include <algorithm>

#include "sim/compute/attention_time.h"
#include "sim/compute/matmul_time.h"
#include "sim/time/duration.h"

namespace tessera::sim {
namespace {

double element_bytes(bool single) { return single ? 4 : 2; }

// Launches of a cast that is a kernel of its own: vLLM's fp8 matmuls on H100 beside bf16 ones of
// the same shape (docs/stack-profiles.md). A fused one moves less and costs as much less.
constexpr double cast_start_ns = 6000, cast_bytes_apart = 8;

double cast_operands(const MatmulShape& s) {
  switch (s.casts) {
    case CastOperands::first: return 1;
    case CastOperands::both: return 2;
    case CastOperands::none: return 0;
  }
  return 0;
}

double cast_elements(const MatmulShape& s) {
  const double first = static_cast<double>(s.m) * static_cast<double>(s.k);
  const double second = static_cast<double>(s.k) * static_cast<double>(s.n);
  const double one = s.casts == CastOperands::none ? 0 : first;
  return (s.casts == CastOperands::both ? first + second : one) * static_cast<double>(s.count);
}

double flops_of(const MatmulShape& s) {
  return 2 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k) *
         static_cast<double>(s.count);
}

}  // namespace

Time KernelCosts::compute(const ComputeCost& cost) const {
  const Gpu& gpu = cluster_.gpu;
  if (cost.on_host) return to_time(cost.elementwise_bytes / host_memory() * ns_per_s);
  const double peak = single(cost) ? gpu.fp32_flops_per_s : gpu.bf16_flops_per_s;
  const double ns =
      matmuls_ns(cost, peak) + attention_ns(cost, peak) + cost.elementwise_bytes / hbm() * ns_per_s;
  return to_time(ns) + cost.kernels * gpu.kernel_launch_ns;
}

bool KernelCosts::single(const ComputeCost& cost) const {
  return cost.dtype == DType::float32 && !stack_.autocast;
}

// Where a GPU has no curve or a module names no shapes, one efficiency stands for all matmuls.
double KernelCosts::matmuls_ns(const ComputeCost& cost, double peak) const {
  const Gpu& gpu = cluster_.gpu;
  double flops = cost.matmul_flops;
  double ns = 0;
  for (const MatmulShape& shape : cost.matmuls) {
    if (shape.fp8) {
      ns += fp8_matmul_ns(shape);
      flops -= flops_of(shape);
    } else if (gpu.matmul) {
      ns += matmul_ns(shape, gpu, peak, element_bytes(single(cost))) / gpu.matmul->sustained;
    }
  }
  if (gpu.matmul && !cost.matmuls.empty()) return ns;
  return ns + std::max(0.0, flops) / (peak * gpu.matmul_efficiency) * ns_per_s;
}

double KernelCosts::fp8_matmul_ns(const MatmulShape& shape) const {
  const Gpu& gpu = cluster_.gpu;
  const double peak = gpu.fp8_flops_per_s;
  const double starts = cast_start_ns * cast_operands(shape) / cast_bytes_apart;
  const double ns = stack_.cast_bytes * (cast_elements(shape) / hbm() * ns_per_s + starts);
  if (!gpu.matmul) return ns + flops_of(shape) / (peak * gpu.matmul_efficiency) * ns_per_s;
  return ns + matmul_ns(shape, gpu, peak, element_bytes(false)) / gpu.matmul->sustained;
}

double KernelCosts::attention_ns(const ComputeCost& cost, double peak) const {
  const Gpu& gpu = cluster_.gpu;
  if (gpu.attention.empty() || cost.attention.heads == 0) {
    // The efficiency is that of causal attention, counted in full.
    const double kept = cost.attention.causal ? 1 : 2;
    return kept * cost.attention_flops / (peak * gpu.attention_efficiency) * ns_per_s;
  }
  const auto curve = attention_of(stack_, gpu);  // known, or make_cost_model had refused it
  if (curve.ok() && *curve != nullptr) {
    return fused_attention_ns(cost.attention, gpu, **curve, peak) / gpu.matmul->sustained;
  }
  return unfused_attention_ns(cost.attention, gpu, peak, stack_.score_passes,
                              element_bytes(single(cost)));
}

Time KernelCosts::copy(Bytes bytes, CopyRoute route) const {
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

double KernelCosts::hbm() const {
  return cluster_.gpu.memory_bytes_per_s * cluster_.gpu.memory_efficiency;
}

// What a node has once its GPUs share evenly: all ranks do the same at the same time.
double KernelCosts::share(double per_node) const { return per_node / cluster_.gpus_per_node; }

double KernelCosts::host_memory() const { return share(cluster_.host_memory.bytes_per_s); }

// Behind its link a copy takes turns with those of the other GPUs. The sum of both times agrees
// with what 1, 2 and 4 GPUs were measured to reach; the larger of both does not.
Time KernelCosts::over_host_link(double bytes) const {
  const Link& link = cluster_.host;
  const double shared = cluster_.host_memory.links_bytes_per_s;
  const double seconds =
      bytes / (link.bytes_per_s * link.efficiency) + (shared > 0 ? bytes / share(shared) : 0);
  return link.latency_ns + to_time(seconds * ns_per_s);
}

Time KernelCosts::over_nvme(double bytes, double bytes_per_s) const {
  if (!(bytes_per_s > 0)) return to_time(duration_ns_max);
  return cluster_.nvme.latency_ns + to_time(bytes / share(bytes_per_s) * ns_per_s);
}

}  // namespace tessera::sim
