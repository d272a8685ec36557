// SPDX-License-Identifier: Apache-2.0
#include "tessera/rank_set.h"

#include <algorithm>
#include <utility>

namespace tessera {

RankSet::RankSet(std::vector<RankRange> ranges) {
  if (ranges.size() == 1) {
    one_ = ranges.front();
  } else {
    many_ = std::move(ranges);
  }
}

RankSet RankSet::range(Rank begin, Rank end) {
  RankSet set;
  if (begin < end) set.one_ = {begin, end};
  return set;
}

RankSet RankSet::of(std::vector<Rank> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<RankRange> out;
  for (Rank rank : ranks) {
    if (!out.empty() && rank < out.back().end) continue;  // a repeat
    if (!out.empty() && rank == out.back().end) {
      ++out.back().end;
    } else {
      out.push_back({rank, rank + 1});
    }
  }
  return RankSet(std::move(out));
}

Rank RankSet::count() const {
  Rank total = 0;
  for (const auto& r : ranges()) total += r.end - r.begin;
  return total;
}

Rank RankSet::first() const {
  TESSERA_ASSERT(!empty(), "an empty set has no first rank");
  return ranges().front().begin;
}

bool RankSet::contains(Rank rank) const {
  if (many_.empty()) return one_.begin <= rank && rank < one_.end;
  const auto after =
      std::upper_bound(many_.begin(), many_.end(), rank,
                       [](Rank value, const RankRange& r) { return value < r.begin; });
  return after != many_.begin() && rank < std::prev(after)->end;
}

// Ranges are as long as can be, so each of the others' lies in one of these.
bool RankSet::covers(const RankSet& other) const {
  const auto all = ranges();
  auto own = all.begin();
  for (const RankRange& r : other.ranges()) {
    while (own != all.end() && own->end < r.end) ++own;
    if (own == all.end() || r.begin < own->begin) return false;
  }
  return true;
}

RankSet RankSet::intersect(const RankSet& other) const {
  std::vector<RankRange> out;
  const auto own = ranges();
  const auto others = other.ranges();
  auto a = own.begin();
  auto b = others.begin();
  while (a != own.end() && b != others.end()) {
    const Rank begin = std::max(a->begin, b->begin);
    const Rank end = std::min(a->end, b->end);
    if (begin < end) out.push_back({begin, end});
    (a->end < b->end) ? ++a : ++b;
  }
  return RankSet(std::move(out));
}

RankSet RankSet::minus(const RankSet& other) const {
  std::vector<RankRange> out;
  const auto others = other.ranges();
  auto b = others.begin();
  for (RankRange a : ranges()) {
    while (b != others.end() && b->end <= a.begin) ++b;
    for (auto cut = b; cut != others.end() && cut->begin < a.end; ++cut) {
      if (a.begin < cut->begin) out.push_back({a.begin, cut->begin});
      a.begin = std::max(a.begin, cut->end);
    }
    if (a.begin < a.end) out.push_back(a);
  }
  return RankSet(std::move(out));
}

std::string RankSet::to_string() const {
  std::string text;
  for (const auto& r : ranges()) {
    if (!text.empty()) text += ',';
    text += std::to_string(r.begin);
    if (r.end - r.begin > 1) text += '-' + std::to_string(r.end - 1);
  }
  return text.empty() ? "none" : text;
}

Result<RankGroups> RankGroups::strided(Rank world_size, Index group_size, Rank stride) {
  if (world_size < 1 || group_size < 1 || stride < 1 ||
      world_size % (std::int64_t{group_size} * stride) != 0) {
    return Status(Code::invalid_argument, "groups of " + std::to_string(group_size) + " ranks, " +
                                              std::to_string(stride) + " apart, do not divide " +
                                              std::to_string(world_size) + " ranks evenly");
  }
  RankGroups groups;
  groups.stride_ = stride;
  groups.group_size_ = group_size;
  groups.group_count_ = world_size / group_size;
  groups.ranks_ = RankSet::all(world_size);
  return groups;
}

Result<RankGroups> RankGroups::of(std::vector<std::vector<Rank>> members) {
  RankGroups groups;
  std::vector<Rank> everyone;
  for (std::size_t g = 0; g < members.size(); ++g) {
    if (members[g].empty()) {
      return Status(Code::invalid_argument, "group " + std::to_string(g) + " has no ranks");
    }
    for (std::size_t i = 0; i < members[g].size(); ++i) {
      const Rank rank = members[g][i];
      if (rank < 0) {
        return Status(Code::invalid_argument, "group " + std::to_string(g) + " has rank " +
                                                  std::to_string(rank) + ", ranks start at 0");
      }
      if (groups.place_.size() <= static_cast<std::size_t>(rank)) {
        groups.place_.resize(static_cast<std::size_t>(rank) + 1, {-1, -1});
      }
      auto& place = groups.place_[static_cast<std::size_t>(rank)];
      if (place.first >= 0) {
        return Status(Code::invalid_argument, "rank " + std::to_string(rank) + " is in group " +
                                                  std::to_string(place.first) +
                                                  " and again in group " + std::to_string(g) +
                                                  ", groups must be disjoint");
      }
      place = {static_cast<Index>(g), static_cast<Index>(i)};
      everyone.push_back(rank);
    }
  }
  groups.group_count_ = static_cast<Index>(members.size());
  groups.ranks_ = RankSet::of(std::move(everyone));
  groups.groups_ = std::move(members);
  return groups;
}

Index RankGroups::group_size(Index group) const {
  return groups_.empty() ? group_size_
                         : static_cast<Index>(groups_[static_cast<std::size_t>(group)].size());
}

Index RankGroups::group_size_max() const {
  Index largest = group_size_;
  for (const auto& group : groups_) largest = std::max(largest, static_cast<Index>(group.size()));
  return largest;
}

Index RankGroups::group_of(Rank rank) const {
  if (!ranks_.contains(rank)) return -1;
  if (!groups_.empty()) return place_[static_cast<std::size_t>(rank)].first;
  return rank / (group_size_ * stride_) * stride_ + rank % stride_;
}

Index RankGroups::index_of(Rank rank) const {
  if (!groups_.empty()) return place_[static_cast<std::size_t>(rank)].second;
  return rank / stride_ % group_size_;
}

Rank RankGroups::member(Index group, Index index) const {
  if (!groups_.empty()) {
    return groups_[static_cast<std::size_t>(group)][static_cast<std::size_t>(index)];
  }
  return (group / stride_ * group_size_ + index) * stride_ + group % stride_;
}

}  // namespace tessera
