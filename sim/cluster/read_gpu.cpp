// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/read_gpu.h"

#include "sim/cluster/object_reader.h"

namespace tessera::sim {

Gpu read_gpu(const nlohmann::json& json, const std::string& where, Status& status) {
  ObjectReader reader(
      json, where,
      {"name", "memory_bytes", "bf16_flops_per_s", "fp32_flops_per_s", "matmul_efficiency",
       "attention_efficiency", "memory_bytes_per_s", "memory_efficiency", "kernel_launch_ns"},
      status);
  Gpu gpu;
  gpu.name = reader.text("name");
  gpu.memory = Bytes{reader.integer("memory_bytes", 1, 1e15)};
  gpu.bf16_flops_per_s = reader.rate("bf16_flops_per_s");
  gpu.fp32_flops_per_s = reader.rate("fp32_flops_per_s");
  gpu.matmul_efficiency = reader.share("matmul_efficiency");
  gpu.attention_efficiency = reader.share("attention_efficiency");
  gpu.memory_bytes_per_s = reader.rate("memory_bytes_per_s");
  gpu.memory_efficiency = reader.share("memory_efficiency");
  gpu.kernel_launch_ns = reader.nanoseconds("kernel_launch_ns");
  return gpu;
}

}  // namespace tessera::sim
