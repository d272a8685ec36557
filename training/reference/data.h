// SPDX-License-Identifier: Apache-2.0
// Made-up data: every element is a hash of its coordinates, so that neither the order of ranks nor
// that of micro-batches matters.
#pragma once

#include "tessera/types.h"
#include "training/reference/layer.h"

namespace tessera::real {

struct DataPlace {
  std::uint64_t seed = 0;
  Rank rank = 0;
  std::int64_t step = 0;
  std::int32_t micro_batch = 0;
};

enum class DataKind : std::uint8_t { input, target, initial_value };

/// A number in [-1, 1), a multiple of 2^-23.
float uniform(const DataPlace& place, DataKind kind, std::int64_t element);

Tensor floats(const DataPlace& place, DataKind kind, std::int64_t rows, std::int64_t width);

/// Sequences of `length` token ids that begin at token `shift` of sequences one longer: with shift
/// 1 the next tokens of those with shift 0.
Tensor tokens(const DataPlace& place, std::int64_t batch, std::int64_t length, std::int64_t shift,
              std::int64_t vocabulary);

/// 0, 1, ... of every sequence.
Tensor positions(std::int64_t batch, std::int64_t length);

}  // namespace tessera::real
