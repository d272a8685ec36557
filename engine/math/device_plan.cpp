// SPDX-License-Identifier: Apache-2.0
#include "engine/math/device_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/math/hopper_gradient.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t head_dim_max = 128;  // of a tile in shared memory

}  // namespace

Status DevicePlan::prepare(const MatmulShape& shape) {
  if (shape.fp8 == Fp8::none) return {};
  constexpr std::int64_t unit = 16;
  if (shape.m % unit != 0 || shape.n % unit != 0) {
    return Status(Code::not_supported,
                  fmt::format("a product of {} x {} by {} x {} in fp8 does not run on GPUs: sizes "
                              "and the tokens of a batch must be multiples of {}; train without "
                              "fp8, or on CPUs",
                              shape.m, shape.k, shape.k, shape.n, unit));
  }
  fp8_bytes_ = std::max(fp8_bytes_, Fp8Operands(shape).bytes());
  return {};
}

Status DevicePlan::prepare(const AttentionShape& shape) {
  if (shape.window > 0 && shape.window < shape.length) {
    return Status(Code::not_supported,
                  fmt::format("attention within a window of {} of {} tokens does not run on GPUs: "
                              "choose sequences no longer than the window, or --device cpu",
                              shape.window, shape.length));
  }
  if (shape.head_dim <= head_dim_max) return {};
  return Status(Code::not_supported,
                fmt::format("attention with head_dim {} does not run on GPUs: at most {} does",
                            shape.head_dim, head_dim_max));
}

Bytes DevicePlan::temporary(const AttentionShape& shape, bool backward) const {
  if (!backward) return Bytes{};
  if (hopper_ && HopperGradient::takes(shape)) return HopperGradient(shape).end;
  return Bytes{shape.rows() * std::int64_t{sizeof(float)}};
}

}  // namespace tessera::kernels
