// SPDX-License-Identifier: Apache-2.0
// Where parameters lie in a flat range, and whose part an element is in. Pure functions of sizes.
#pragma once

#include <vector>

#include "engine/schemes/fsdp1/flat_layout.h"

namespace tessera {

/// Parts that are even, so that every part begins at a multiple of 4 bytes in 16 bit (deepspeed
/// stage_1_and_2.py: nccl_start_alignment_factor). FlatLayout::shard is a part.
FlatLayout flat_parts(const Model& model, const std::vector<ParameterId>& parameters, Index parts);

/// 0, W, 2W, ..., 1, W + 1, ... (deepspeed _round_robin_reorder).
std::vector<ParameterId> round_robin(const std::vector<ParameterId>& parameters, Index parts);

/// A parameter's gradient in a bucket.
struct BucketEntry {
  ParameterId parameter;
  Numel place{};   // in the flat range
  Numel offset{};  // in the bucket
  Numel numel{};
};

/// The elements that one entry and one part have in common.
struct OwnedPiece {
  ParameterId parameter;
  Numel offset{};   // in the bucket
  Numel in_part{};  // in the owner's part
  Numel numel{};
};

/// Neighbours in a bucket that one rank owns.
struct OwnedSlice {
  Index owner = 0;
  Numel offset{};  // in the bucket
  Numel numel{};
  std::vector<OwnedPiece> pieces;
};

/// `entries` in the order of offsets, without gaps.
std::vector<OwnedSlice> owned_slices(const std::vector<BucketEntry>& entries, Numel part);

}  // namespace tessera
