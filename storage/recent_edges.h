// SPDX-License-Identifier: Apache-2.0
// When the latest operations of each rank began and ended.
//
// The idea: memory changes where an operation begins or ends. Which operation that is ranks have in
// common, the time they have not; so samples are kept as edges of operations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "storage/chunk.h"
#include "storage/per_rank.h"

namespace tessera::storage {

/// A moment of a rank: twice the op's id, and 1 more if it is its end. -1: none.
using Edge = std::int64_t;
inline constexpr Edge no_edge = -1;

class RecentEdges {
 public:
  /// `recorded`: ranks that have spans; the more they are, the less is remembered of each.
  RecentEdges(std::int32_t ranks, std::size_t recorded)
      : size_(std::bit_floor(std::clamp<std::size_t>(
            room / sizeof(Times) / std::max<std::size_t>(recorded, 1), 256, 8192))),
        rings_(ranks) {}

  void add(Rank rank, const SpanEntry& span) {
    std::vector<Times>& ring = rings_.of(rank);
    if (ring.empty()) ring.assign(least, none);
    while (ring.size() < size_ && would_forget(ring, span.op)) grow(ring);
    // The first of an op and no other: who reads the file finds that one.
    Times& times = ring[place(ring, span.op)];
    if (times.op < span.op) times = {span.op, span.begin, span.end};
  }
  /// Nothing: it was forgotten.
  std::optional<Time> time(Rank rank, Edge edge) const {
    if (edge < 0) return {};
    const std::vector<Times>* const ring = rings_.find(rank);
    if (ring == nullptr) return {};
    const Times& times = (*ring)[place(*ring, static_cast<std::int32_t>(edge / 2))];
    if (times.op != edge / 2) return {};
    return edge % 2 == 0 ? times.begin : times.end;
  }
  /// Calls use(edge, time) for all that are remembered.
  template <class F>
  void for_each(Rank rank, F use) const {
    const std::vector<Times>* const ring = rings_.find(rank);
    for (const Times& times : ring == nullptr ? std::span<const Times>() : std::span(*ring)) {
      if (times.op < 0) continue;
      use(Edge{times.op} * 2, times.begin);
      use(Edge{times.op} * 2 + 1, times.end);
    }
  }

 private:
  struct Times {
    std::int32_t op;
    Time begin, end;
  };
  static constexpr Times none{-1, 0, 0};
  static constexpr std::size_t room = 64 << 20;  // bytes of all ranks
  static constexpr std::size_t least = 16;       // of a ring, which grows to size_

  static std::size_t place(const std::vector<Times>& ring, std::int32_t op) {
    return static_cast<std::size_t>(static_cast<std::uint32_t>(op)) & (ring.size() - 1);
  }
  static bool would_forget(const std::vector<Times>& ring, std::int32_t op) {
    const Times& there = ring[place(ring, op)];
    return there.op >= 0 && there.op != op;
  }
  static void grow(std::vector<Times>& ring) {
    std::vector<Times> grown(2 * ring.size(), none);
    for (const Times& times : ring) {
      if (times.op >= 0) grown[place(grown, times.op)] = times;
    }
    ring = std::move(grown);
  }

  const std::size_t size_;  // of a ring at most, a power of 2
  PerRank<std::vector<Times>> rings_;
};

}  // namespace tessera::storage
