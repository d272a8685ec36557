// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/read_gpu.h"

#include "sim/cluster/object_reader.h"

namespace tessera::sim {
namespace {

MatmulCurve read_matmul(const nlohmann::json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where,
                      {"start_ns", "fill_ns", "whole_waves", "tile_256x128", "tile_128x128",
                       "tile_256x64", "tile_128x64", "power_loss", "power_flops", "sustained"},
                      status);
  MatmulCurve curve;
  curve.start_ns = reader.nanoseconds("start_ns");
  curve.fill_ns = reader.nanoseconds("fill_ns");
  curve.whole_waves = reader.number("whole_waves", 0, 1);
  const char* tiles[] = {"tile_256x128", "tile_128x128", "tile_256x64", "tile_128x64"};
  for (std::size_t k = 0; k < 4; ++k) curve.tile_efficiency[k] = reader.share(tiles[k]);
  curve.power_loss = reader.number("power_loss", 0, 1);
  curve.power_flops = reader.number("power_flops", 1, 1e21);
  curve.sustained = reader.share("sustained");
  return curve;
}

AttentionCurve read_attention(const std::string& name, const nlohmann::json& json,
                              const std::string& where, Status& status) {
  ObjectReader reader(json, where, {"start_ns", "block_ns", "forward", "narrow", "backward"},
                      status);
  AttentionCurve curve{.name = name};
  curve.start_ns = reader.nanoseconds("start_ns");
  curve.block_ns = reader.nanoseconds("block_ns");
  curve.forward = reader.share("forward");
  curve.narrow = reader.share("narrow");
  curve.backward = reader.number("backward", 0.01, 2);
  return curve;
}

// Everything that is known kernel by kernel; a GPU without it has one efficiency for all.
void read_curves(ObjectReader& reader, const std::string& where, Gpu& gpu, Status& status) {
  for (const char* curves : {"matmul", "attention"}) {
    if (reader.has("multiprocessors") || !reader.has(curves)) continue;
    reader.fail(curves, "says nothing without multiprocessors: give both");
  }
  if (!reader.has("multiprocessors")) return;
  gpu.multiprocessors = static_cast<Index>(reader.integer("multiprocessors", 1, 1e4));
  gpu.matmul = read_matmul(reader.object("matmul"), where + "matmul.", status);
  const nlohmann::json& kernels = reader.table("attention");
  for (const auto& [name, curve] : kernels.items()) {
    gpu.attention.push_back(read_attention(name, curve, where + "attention." + name + ".", status));
  }
}

// No matrix unit is slower in fewer bits: two numbers were mixed up.
void check_peaks(ObjectReader& reader, const Gpu& gpu) {
  if (gpu.fp32_flops_per_s > gpu.bf16_flops_per_s) {
    reader.fail("fp32_flops_per_s", "must not be above bf16_flops_per_s");
  }
  if (gpu.fp8_flops_per_s > 0 && gpu.fp8_flops_per_s < gpu.bf16_flops_per_s) {
    reader.fail("fp8_flops_per_s", "must not be below bf16_flops_per_s");
  }
}

}  // namespace

Gpu read_gpu(const nlohmann::json& json, const std::string& where, Status& status) {
  ObjectReader reader(
      json, where,
      {"name", "memory_bytes", "bf16_flops_per_s", "fp8_flops_per_s", "fp32_flops_per_s",
       "matmul_efficiency", "attention_efficiency", "memory_bytes_per_s", "memory_efficiency",
       "kernel_launch_ns", "multiprocessors", "matmul", "attention"},
      status);
  Gpu gpu;
  gpu.name = reader.text("name");
  gpu.memory = Bytes{reader.integer("memory_bytes", 1, 1e15)};
  gpu.bf16_flops_per_s = reader.rate("bf16_flops_per_s");
  if (reader.has("fp8_flops_per_s")) gpu.fp8_flops_per_s = reader.rate("fp8_flops_per_s");
  gpu.fp32_flops_per_s = reader.rate("fp32_flops_per_s");
  gpu.matmul_efficiency = reader.share("matmul_efficiency");
  gpu.attention_efficiency = reader.share("attention_efficiency");
  gpu.memory_bytes_per_s = reader.rate("memory_bytes_per_s");
  gpu.memory_efficiency = reader.share("memory_efficiency");
  gpu.kernel_launch_ns = reader.nanoseconds("kernel_launch_ns");
  check_peaks(reader, gpu);
  read_curves(reader, where, gpu, status);
  return gpu;
}

}  // namespace tessera::sim
