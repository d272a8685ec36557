// SPDX-License-Identifier: Apache-2.0
// Matrices rounded to the numbers that 8 bits and a scale can say (engine/math/e4m3.h).
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// Writes what becomes of `rows`, tile by tile, to `to`, without gaps between rows. A tile at the
/// end may be smaller.
void round_to_fp8(const StoredRows& rows, const ScaleTile& tile, ConstArray from, float* to);

}  // namespace tessera::kernels
