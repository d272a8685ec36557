// SPDX-License-Identifier: Apache-2.0
// One GPU as the simulator's kernels see it.
//
// Units are in the names, sources in docs/simulator.md.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "tessera/types.h"

namespace tessera::sim {

/// How matmuls run: in tiles of the result, one to a multiprocessor, wave after wave.
struct MatmulCurve {
  Time start_ns = 0;       // of a launch, to its first wave
  Time fill_ns = 0;        // of a wave of the largest tiles, before and after its multiplications
  double whole_waves = 1;  // 1: a wave that is not full takes as long; 0: its share of the time
  // Share of a multiprocessor's peak that tiles reach: 256 x 128, 128 x 128, 256 x 64, 128 x 64.
  std::array<double, 4> tile_efficiency{1, 1, 1, 1};
  // Long matmuls are slowed by the power limit: by `power_loss` at most, by half of that at
  // `power_flops`.
  double power_loss = 0;
  double power_flops = 1;
  double sustained = 1;  // share of that speed which a training step keeps, hour after hour
};

/// One generation of fused attention kernels. Shares of the peak count what causal attention needs,
/// half of what s^2 says.
struct AttentionCurve {
  std::string name;     // "flash2"
  Time start_ns = 0;    // of a launch
  Time block_ns = 0;    // of 128 queries of a head, beside their multiplications
  double forward = 1;   // heads of 128 and more
  double narrow = 1;    // heads of 64 and less
  double backward = 1;  // beside forward
};

struct Gpu {
  std::string name;                   // "H100 SXM5 80 GB"
  Bytes memory{};                     // usable by the program
  double bf16_flops_per_s = 0;        // dense matmul peak, what MFU refers to (fp16 alike)
  double fp8_flops_per_s = 0;         // dense, with fp32 sums; 0: it has no fp8
  double fp32_flops_per_s = 0;        // dense matmul peak of fp32 inputs (TF32 where it is default)
  double matmul_efficiency = 1;       // share of the peak that large matmuls reach
  double attention_efficiency = 1;    // share of the peak that fused attention reaches
  double memory_bytes_per_s = 0;      // HBM peak
  double memory_efficiency = 1;       // share that streaming kernels reach
  Time kernel_launch_ns = 0;          // fixed cost per kernel
  Index multiprocessors = 0;          // 0: unknown, and so are the curves
  std::optional<MatmulCurve> matmul;  // none: every matmul reaches matmul_efficiency
  std::vector<AttentionCurve> attention;  // none: attention_efficiency, counted in full

  /// The curve called `name`, or null.
  const AttentionCurve* find_attention(const std::string& kernel) const {
    for (const AttentionCurve& curve : attention) {
      if (curve.name == kernel) return &curve;
    }
    return nullptr;
  }
};

}  // namespace tessera::sim
