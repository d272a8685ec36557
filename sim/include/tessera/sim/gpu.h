// SPDX-License-Identifier: Apache-2.0
// One GPU as the simulator's kernels see it. Units are in the names, sources in docs/simulator.md.
#pragma once

#include <string>

#include "tessera/types.h"

namespace tessera::sim {

struct Gpu {
  std::string name;                 // "H100 SXM5 80 GB"
  Bytes memory{};                   // usable by the program
  double bf16_flops_per_s = 0;      // dense matmul peak, what MFU refers to (fp16 alike)
  double fp32_flops_per_s = 0;      // dense matmul peak of fp32 inputs (TF32 where it is default)
  double matmul_efficiency = 1;     // share of the peak that large matmuls reach
  double attention_efficiency = 1;  // share of the peak that fused attention reaches
  double memory_bytes_per_s = 0;    // HBM peak
  double memory_efficiency = 1;     // share that streaming kernels reach
  Time kernel_launch_ns = 0;        // fixed cost per kernel
};

}  // namespace tessera::sim
