// SPDX-License-Identifier: Apache-2.0
// How long one matmul takes, from its shape.
#pragma once

#include "tessera/op.h"
#include "tessera/sim/gpu.h"

namespace tessera::sim {

/// Nanoseconds of one launch on `gpu`, which has a curve, at `peak` FLOP/s with `element_bytes` per
/// element. On a cool GPU by itself: without MatmulCurve::sustained.
double matmul_ns(const MatmulShape& shape, const Gpu& gpu, double peak, double element_bytes);

}  // namespace tessera::sim
