// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al., JMLR 15, 2014): an element becomes 0, or is divided by the share that
// stays.
//
// The idea: nobody keeps a mask. Which elements are dropped is a function of their place, by
// Philox4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011), a generator
// that has a counter instead of a state: the counter is (column / 4, row, operation, sequence), the
// key is of seed and step. So backward, a block that runs again, and any number of ranks and
// threads find the same elements.
#pragma once

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// The key of a step: another one for each seed and step.
std::uint64_t dropout_key(std::uint64_t seed, std::int64_t step);

/// The columns that `factors` computes at once.
inline constexpr std::int64_t dropout_tile = 64;

/// to[c] = 0 or 1 / (1 - share), for columns first + c below first + dropout_tile of a row of
/// sequence `sample` of the batch. REQUIRES: first is a multiple of dropout_tile.
void dropout_factors(const Dropout& dropout, std::int64_t sample, std::int64_t row,
                     std::int64_t first, float (&to)[dropout_tile]);

/// to = factors * from, rows being places of sequences; `to` may be `from`.
void drop(const Dropout& dropout, const Positions& shape, ConstArray from, Array to, int threads);
/// to += factors * from.
void add_dropped(const Dropout& dropout, const Positions& shape, const float* from, float* to,
                 int threads);

}  // namespace tessera::kernels
