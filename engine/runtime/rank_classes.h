// SPDX-License-Identifier: Apache-2.0
// State that ranks share as long as they behave alike.
//
// The idea: in SPMD training all ranks have the same allocator and the same order of streams, so
// that state exists once. Only when `where` separates ranks is it copied.
#pragma once

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

  RankClasses(RankSet everyone, State initial) {
    classes_.push_back({std::move(everyone), std::move(initial)});
  }

  /// Splits classes so that `where` is a union of classes, then calls f(ranks, state) for those
  /// inside, in ascending order of creation. `f` returns Status; the first failure ends the walk.
  template <class F>
  Status for_each_in(const RankSet& where, F&& f) {
    split(where);
    for (auto& c : classes_) {
      if (where.contains(c.ranks.first())) TESSERA_TRY(f(c.ranks, c.state));
    }
    return {};
  }

  /// Calls f(ranks, state) for the classes outside `where`; only valid after `for_each_in(where)`.
  template <class F>
  void for_each_outside(const RankSet& where, F&& f) {
    for (auto& c : classes_) {
      if (!where.contains(c.ranks.first())) f(c.ranks, c.state);
    }
  }

  std::vector<Class>& all() { return classes_; }
  const std::vector<Class>& all() const { return classes_; }

 private:
  void split(const RankSet& where) {
    const std::size_t count = classes_.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (where.covers(classes_[i].ranks)) continue;  // as nearly always
      RankSet inside = classes_[i].ranks.intersect(where);
      if (inside.empty()) continue;
      RankSet outside = classes_[i].ranks.minus(where);
      Class rest{std::move(outside), classes_[i].state};
      classes_[i].ranks = std::move(inside);
      classes_.push_back(std::move(rest));
    }
  }

  std::vector<Class> classes_;
};

}  // namespace tessera
