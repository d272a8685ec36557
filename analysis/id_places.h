// SPDX-License-Identifier: Apache-2.0
// Places of rows by their ids, which ascend.
//
// The idea: waits and marks have ids, too, so that those of operations have gaps, but evenly. A
// table says where each block of neighbouring ids begins, with about one id in a block, and what is
// left is a look at one or two.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::analysis {

class IdPlaces {
 public:
  IdPlaces() = default;
  template <class Rows, class IdOf>
  IdPlaces(const Rows& rows, IdOf id_of) {
    ids_.reserve(rows.size());
    for (const auto& row : rows) ids_.push_back(id_of(row));
    find_blocks();
  }
  explicit IdPlaces(std::vector<std::int32_t> ids) : ids_(std::move(ids)) { find_blocks(); }

  /// -1: there is none.
  std::int32_t find(std::int32_t id) const {
    if (ids_.empty() || id < ids_.front() || id > ids_.back()) return -1;
    const std::size_t block = block_of(id);
    const auto begin = ids_.begin() + blocks_[block];
    const auto end = ids_.begin() + blocks_[block + 1];
    const auto at = std::lower_bound(begin, end, id);
    return at == end || *at != id ? -1 : static_cast<std::int32_t>(at - ids_.begin());
  }

 private:
  void find_blocks() {
    if (ids_.empty()) return;
    const std::int64_t range = std::int64_t{ids_.back()} - ids_.front();
    while (range >> shift_ > 2 * std::ssize(ids_)) ++shift_;
    for (std::size_t k = 0; k < ids_.size(); ++k) {
      while (blocks_.size() <= block_of(ids_[k])) blocks_.push_back(static_cast<std::int32_t>(k));
    }
    blocks_.push_back(static_cast<std::int32_t>(ids_.size()));
  }
  std::size_t block_of(std::int32_t id) const {
    return static_cast<std::size_t>((std::int64_t{id} - ids_.front()) >> shift_);
  }

  std::vector<std::int32_t> ids_;
  std::vector<std::int32_t> blocks_;  // where each begins, and the end
  int shift_ = 0;                     // ids of a block, as a power of two
};

}  // namespace tessera::analysis
