// SPDX-License-Identifier: Apache-2.0
#include "engine/math/device_plan.h"

#include <fmt/format.h>

#include "engine/math/hopper_gradient.h"

namespace tessera::kernels {
namespace {

constexpr std::int64_t head_dim_max = 128;  // of a tile in shared memory

}  // namespace

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
