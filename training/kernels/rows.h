// SPDX-License-Identifier: Apache-2.0
// Moving and summing rows: casts, embeddings, gradients of biases.
#pragma once

#include <span>

#include "tessera/math_shapes.h"

namespace tessera::kernels {

/// to = from, whatever the types.
void convert(ConstArray from, Array to, std::int64_t numel, int threads);
/// to += from.
void accumulate(const float* from, Array to, std::int64_t numel);

/// values *= factor.
void scale(Array values, float factor, std::int64_t numel);

/// sums[c] = the sum of column c of `rows` x `width` numbers.
void column_sums(ConstArray from, std::int64_t rows, std::int64_t width, float* sums, int threads);

/// x[n] = table[ids[n]] for rows of `width`. REQUIRES: ids inside of the table.
void gather_rows(ConstArray table, std::span<const std::int32_t> ids, std::int64_t width, float* x,
                 int threads);
/// gradient[ids[n]] += dx[n], in the order of n, where ids[n] is not `skipped`.
void scatter_rows(const float* dx, std::span<const std::int32_t> ids, std::int64_t width,
                  Array gradient, int threads, std::int32_t skipped = -1);

/// x[b, t] += table[t], or table[places[b, t]].
void add_positions(ConstArray table, const Positions& shape, float* x, int threads);
/// gradient[t] += the sum of dx[b, t] over b.
void sum_positions(const float* dx, std::int64_t batch, std::int64_t length, std::int64_t width,
                   Array gradient, int threads);

}  // namespace tessera::kernels
