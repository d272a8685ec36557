// SPDX-License-Identifier: Apache-2.0
// State that ranks share as long as they behave alike.
//
// The idea: in SPMD training all ranks have the same allocator and the same order of streams, so
// that state exists once. Only when ranks are separated is it copied.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "tessera/rank_set.h"

namespace tessera {

template <class State>
class RankClasses {
 public:
  struct Class {
    RankSet ranks;
    State state;
  };

  RankClasses(RankSet everyone, State initial) : everyone_(everyone) {
    const auto ranges = everyone.ranges();
    of_rank_.assign(static_cast<std::size_t>(ranges.back().end), 0);
    classes_.push_back({std::move(everyone), std::move(initial)});
  }

  /// Makes `where` a union of classes. REQUIRES: they are ranks of `everyone`.
  void split(const RankSet& where) {
    if (where == everyone_) return;  // as nearly always
    touched(where);
    for (const std::size_t i : touched_) {
      if (where.covers(classes_[i].ranks)) continue;
      const RankSet inside = classes_[i].ranks.intersect(where);
      RankSet outside = classes_[i].ranks.minus(where);
      // The smaller part moves, so that cutting off ranks one by one stays cheap.
      const bool inside_moves = inside.count() < outside.count();
      const RankSet& moved = inside_moves ? inside : outside;
      const auto added = static_cast<std::int32_t>(classes_.size());
      moved.for_each([&](Rank r) { of_rank_[static_cast<std::size_t>(r)] = added; });
      Class part{moved, classes_[i].state};
      classes_[i].ranks = inside_moves ? outside : inside;
      classes_.push_back(std::move(part));
    }
  }

  /// Splits classes so that `where` is a union of classes, then calls f(ranks, state) for those
  /// inside, in ascending order of creation. `f` returns Status; the first failure ends the walk.
  template <class F>
  Status for_each_in(const RankSet& where, F&& f) {
    // Who was told of classes asks for one of them.
    if (!single() && !where.empty()) {
      Class& first = of(where.first());
      if (first.ranks == where) return f(first.ranks, first.state);
    }
    split(where);
    return for_each_touched(where, std::forward<F>(f));
  }

  /// Calls f(ranks, state) for the classes with ranks in `where`, likewise, without a split.
  template <class F>
  Status for_each_touched(const RankSet& where, F&& f) {
    if (where == everyone_) {
      for (auto& c : classes_) TESSERA_TRY(f(c.ranks, c.state));
      return {};
    }
    touched(where);
    for (const std::size_t i : touched_) TESSERA_TRY(f(classes_[i].ranks, classes_[i].state));
    return {};
  }

  /// The class of `rank`, which is one of `everyone`.
  Class& of(Rank rank) {
    return classes_[static_cast<std::size_t>(of_rank_[static_cast<std::size_t>(rank)])];
  }
  const Class& of(Rank rank) const { return const_cast<RankClasses*>(this)->of(rank); }

  bool single() const { return classes_.size() == 1; }
  std::vector<Class>& all() { return classes_; }
  const std::vector<Class>& all() const { return classes_; }

 private:
  // The places of classes with ranks in `where`, ascending. Linear in what is smaller: those ranks,
  // or all classes and ranks.
  void touched(const RankSet& where) {
    touched_.clear();
    if (single()) {
      touched_.push_back(0);
      return;
    }
    seen_.resize(classes_.size());
    where.for_each([this](Rank r) {
      const auto place = static_cast<std::size_t>(of_rank_[static_cast<std::size_t>(r)]);
      if (!seen_[place]) touched_.push_back(place);
      seen_[place] = true;
    });
    if (touched_.size() > classes_.size() / 8) {
      touched_.clear();
      for (std::size_t i = 0; i < seen_.size(); ++i) {
        if (seen_[i]) touched_.push_back(i);
      }
    } else {
      std::sort(touched_.begin(), touched_.end());
    }
    for (const std::size_t i : touched_) seen_[i] = false;
  }

  const RankSet everyone_;
  std::vector<Class> classes_;
  std::vector<std::int32_t> of_rank_;  // place of a rank's class
  std::vector<std::size_t> touched_;
  std::vector<bool> seen_;  // all false between calls
};

}  // namespace tessera
