// SPDX-License-Identifier: Apache-2.0
// Which ranks an operation holds for, and how ranks form groups.
//
// The idea: the engine never asks "which rank am I?"; it says for which ranks. A set of a million
// ranks is a few ranges, all groups of a mesh axis are three numbers.
//
//   RankSet everyone = RankSet::all(64);
//   RankGroups nodes = *RankGroups::strided(64, 8);      // 8 groups of 8 consecutive ranks
//   RankGroups rails = *RankGroups::strided(64, 8, 8);   // 8 groups {k, k+8, ..., k+56}
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

/// Ranks begin, begin + 1, ..., end - 1.
struct RankRange {
  Rank begin = 0;
  Rank end = 0;
  bool operator==(const RankRange&) const = default;
};

/// An immutable set of ranks, kept as ascending disjoint ranges.
class RankSet {
 public:
  RankSet() = default;
  static RankSet all(Rank world_size) { return range(0, world_size); }
  static RankSet single(Rank rank) { return range(rank, rank + 1); }
  static RankSet range(Rank begin, Rank end);
  /// From ranks in any order, repeats allowed.
  static RankSet of(std::vector<Rank> ranks);

  bool empty() const { return one_.begin == one_.end && many_.empty(); }
  Rank count() const;
  /// REQUIRES: !empty().
  Rank first() const;
  bool contains(Rank rank) const;
  bool covers(const RankSet& other) const;
  std::span<const RankRange> ranges() const {
    if (!many_.empty()) return many_;
    return {&one_, empty() ? std::size_t{0} : 1};
  }

  /// f(rank), ascending.
  template <class F>
  void for_each(F&& f) const {
    for (const RankRange& range : ranges()) {
      for (Rank rank = range.begin; rank < range.end; ++rank) f(rank);
    }
  }

  RankSet intersect(const RankSet& other) const;
  RankSet minus(const RankSet& other) const;

  bool operator==(const RankSet&) const = default;
  /// "0-7,9", for messages.
  std::string to_string() const;

 private:
  explicit RankSet(std::vector<RankRange> ranges);

  RankRange one_;  // of a set that is one range, as nearly all are: copies cost no memory
  std::vector<RankRange> many_;
};

/// Disjoint groups of ranks: all process groups of one mesh axis. Affine groups (`strided`) cost no
/// memory per rank.
class RankGroups {
 public:
  /// `world_size / group_size` groups; members of a group are `stride` ranks apart.
  /// Fails: invalid_argument, unless group_size * stride divides world_size.
  static Result<RankGroups> strided(Rank world_size, Index group_size, Rank stride = 1);
  /// Any disjoint groups; ranks that are in none do not take part.
  /// Fails: invalid_argument (an empty group, a rank twice, a negative rank), naming the rank.
  static Result<RankGroups> of(std::vector<std::vector<Rank>> groups);

  Index group_count() const { return group_count_; }
  Index group_size(Index group) const;
  Index group_size_max() const;
  /// The group of `rank`, or -1.
  Index group_of(Rank rank) const;
  /// The place of `rank` in its group. REQUIRES: group_of(rank) >= 0.
  Index index_of(Rank rank) const;
  Rank member(Index group, Index index) const;
  const RankSet& ranks() const { return ranks_; }
  /// Ranks between neighbours of a group, the same in all groups; 0 if groups are not affine.
  Rank stride() const { return groups_.empty() ? stride_ : 0; }

 private:
  Rank stride_ = 1;
  Index group_size_ = 0;
  Index group_count_ = 0;
  RankSet ranks_;
  std::vector<std::vector<Rank>> groups_;       // explicit groups only
  std::vector<std::pair<Index, Index>> place_;  // explicit groups only: rank -> (group, index)
};

}  // namespace tessera
