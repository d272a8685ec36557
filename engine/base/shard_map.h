// SPDX-License-Identifier: Apache-2.0
// Which elements of which parameters a rank's shard holds.
//
// The idea: parameters lie one behind another in a flat range, which is cut into equal shards.
// Rank i of the group holds [i * shard, (i + 1) * shard). A dim-0 shard is the same with one
// parameter, a whole parameter the same with one shard, so optimizers, summon_full_params and
// reports need no second way of looking at it.
#pragma once

#include <vector>

#include "tessera/kernels.h"

namespace tessera {

/// A run of elements that one parameter and one shard have in common.
struct ShardPiece {
  ParameterId parameter;
  Numel first{};   // in the parameter
  Numel offset{};  // in the shard
  Numel numel{};
};

/// The piece's elements of a shard.
template <class E>
E part_of(const E& shard, const ShardPiece& piece) {
  return shard.part(static_cast<std::size_t>(piece.offset.value),
                    static_cast<std::size_t>(piece.numel.value));
}

class ShardMap {
 public:
  struct Segment {
    ParameterId parameter;
    Numel begin{};  // in the flat range
    Numel numel{};
    bool requires_grad = true;
  };

  ShardMap() = default;
  ShardMap(std::vector<Segment> segments, Numel shard)
      : segments_(std::move(segments)), shard_(shard) {}

  /// The elements of index `index`, in ascending order; of frozen parameters none if
  /// `trained_only`.
  std::vector<ShardPiece> pieces(Index index, bool trained_only = false) const;

  /// Elements per shard, padding included.
  Numel shard() const { return shard_; }
  const std::vector<Segment>& segments() const { return segments_; }
  bool requires_grad() const;
  bool holds(ParameterId parameter) const;

 private:
  std::vector<Segment> segments_;
  Numel shard_{};
};

}  // namespace tessera
