// SPDX-License-Identifier: Apache-2.0
#include "cli/train/gpu_peak.h"

#include <catch2/catch.hpp>

namespace tessera::cli {
namespace {

TEST_CASE("MFU on a GPU refers to what its maker states for the dtype", "[cli]") {
  CHECK(stated_peak_flops("NVIDIA H200", DType::bfloat16) == 989.4e12);
  CHECK(stated_peak_flops("NVIDIA H100 80GB HBM3", DType::float16) == 989.4e12);
  CHECK(stated_peak_flops("NVIDIA H100 PCIe", DType::bfloat16) == 756e12);
  CHECK(stated_peak_flops("NVIDIA A100-SXM4-80GB", DType::bfloat16) == 312e12);
  CHECK(stated_peak_flops("NVIDIA A100-SXM4-80GB", DType::float32) == 19.5e12);
  CHECK(stated_peak_flops("NVIDIA Tesla K80", DType::float32) == 0);
  CHECK(stated_peak_flops("NVIDIA H200", DType::float32, true) == 494.7e12);
  CHECK(stated_peak_flops("NVIDIA A100-SXM4-80GB", DType::float32, true) == 156e12);
  CHECK(stated_peak_flops("NVIDIA H200", DType::bfloat16, true) == 989.4e12);
}

}  // namespace
}  // namespace tessera::cli
