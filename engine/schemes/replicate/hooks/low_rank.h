// SPDX-License-Identifier: Apache-2.0
// Matrices as products of two thin ones: M (rows x columns) ~ P (rows x rank) Q^T (columns x rank).
// All row-major, in any floating dtype, computed in float32 in fixed order.
#pragma once

#include <span>
#include <vector>

#include "tessera/comm_hook.h"

namespace tessera {

/// A matrix inside a bucket, and where its factors are.
struct LowRank {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t rank = 0;
  Numel offset{};  // in the bucket
  Numel p{};       // in the buffer of all P
  Numel q{};       // in the buffer of all Q
};

/// The parts of a bucket that are worth compressing, and those that are not.
struct LowRankPlan {
  std::vector<LowRank> matrices;
  std::vector<BucketParameter> rest;
  Numel p{}, q{}, rest_numel{};
};

LowRankPlan plan_low_rank(const std::vector<BucketParameter>& parameters, std::int32_t rank,
                          double min_compression_rate);

/// Numbers of one buffer.
struct Numbers {
  std::span<const std::byte> read;
  std::span<std::byte> write;  // empty: only for reading
  DType dtype = DType::float32;

  float at(Numel i) const;
  void set(Numel i, float value) const;
};

/// Columns of zero become random, equal on all ranks for equal seeds.
void fill_zero_columns(const LowRank& m, const Numbers& q, std::uint64_t seed);
/// The columns of a rows x rank matrix at `offset`, by Gram-Schmidt. A column that depends on
/// those before it becomes zero: noise of unit length would spoil the projection.
void orthogonalise(std::int64_t rows, std::int64_t rank, Numel offset, const Numbers& matrix);
/// P = M Q.
void multiply_by_q(const LowRank& m, const Numbers& bucket, const Numbers& q, const Numbers& p);
/// Q = M^T P.
void multiply_by_p(const LowRank& m, const Numbers& bucket, const Numbers& p, const Numbers& q);
/// M = P Q^T / divisor.
void expand(const LowRank& m, const Numbers& p, const Numbers& q, float divisor,
            const Numbers& bucket);

}  // namespace tessera
