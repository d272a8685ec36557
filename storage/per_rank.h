// SPDX-License-Identifier: Apache-2.0
// Something that ranks have, made when it is first asked for.
//
// The idea: a run may have very many ranks of which few are recorded, so each of the others costs
// a number and nothing else.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "tessera/trace.h"

namespace tessera::storage {

template <class T>
class PerRank {
 public:
  explicit PerRank(std::int32_t ranks) : places_(static_cast<std::size_t>(ranks), -1) {}

  /// That of the rank. Valid until destruction.
  T& of(Rank rank) {
    std::int32_t& place = places_[static_cast<std::size_t>(rank)];
    if (place < 0) {
      place = static_cast<std::int32_t>(values_.size());
      values_.emplace_back();
    }
    return values_[static_cast<std::size_t>(place)];
  }
  /// Null: nobody has asked for it yet.
  const T* find(Rank rank) const {
    const std::int32_t place = places_[static_cast<std::size_t>(rank)];
    return place < 0 ? nullptr : &values_[static_cast<std::size_t>(place)];
  }

 private:
  std::vector<std::int32_t> places_;  // by rank, into `values_`
  std::deque<T> values_;
};

}  // namespace tessera::storage
