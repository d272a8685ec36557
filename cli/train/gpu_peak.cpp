// SPDX-License-Identifier: Apache-2.0
#include "cli/train/gpu_peak.h"

#include <algorithm>
#include <array>

namespace tessera::cli {
namespace {

struct Peak {
  std::string_view name;  // what the driver's name contains; the first that fits counts
  double half = 0;        // bfloat16 and float16, in TFLOP/s
  double single = 0;
};

// NVIDIA's data sheets. They state tensor cores' rates with sparsity: these are half of that.
constexpr std::array peaks = {
    Peak{"B200", 2250, 75},        // HGX B200: 8 GPUs have 36 PFLOP/s with sparsity
    Peak{"GH200", 989.4, 66.9},    // Grace Hopper
    Peak{"H200 NVL", 835.5, 60},   // H200
    Peak{"H200", 989.4, 66.9},     // H200
    Peak{"H100 PCIe", 756, 51.2},  // H100, the first data sheet
    Peak{"H100 NVL", 835.5, 60},   // H100
    Peak{"H100", 989.4, 66.9},     // H100 SXM
    Peak{"A100", 312, 19.5},       // A100
    Peak{"L40S", 362, 91.6},       // L40S
};

}  // namespace

double stated_peak_flops(std::string_view gpu, DType dtype, bool tf32) {
  const auto fits = [gpu](const Peak& peak) { return gpu.find(peak.name) != gpu.npos; };
  const auto found = std::find_if(peaks.begin(), peaks.end(), fits);
  if (found == peaks.end()) return 0;
  // Tensor cores take TF32 at half the rate of halves, on all of them.
  const double single = tf32 ? found->half / 2 : found->single;
  return (dtype == DType::float32 ? single : found->half) * 1e12;
}

}  // namespace tessera::cli
