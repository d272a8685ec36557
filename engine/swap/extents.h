// SPDX-License-Identifier: Apache-2.0
// Allocates places in a file.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "tessera/assert.h"

namespace tessera {

/// A free list per size: slots come in few sizes and are written again and again. All numbers are
/// bytes; the file never shrinks.
class Extents {
 public:
  std::int64_t take(std::int64_t bytes) {
    auto& free = free_[bytes];
    if (free.empty()) {
      const std::int64_t place = end_;
      end_ += bytes;
      return place;
    }
    const std::int64_t place = free.back();
    free.pop_back();
    return place;
  }
  void give_back(std::int64_t place, std::int64_t bytes) {
    TESSERA_ASSERT(place >= 0 && place + bytes <= end_, "a place of the file");
    free_[bytes].push_back(place);
  }
  std::int64_t end() const { return end_; }

 private:
  std::map<std::int64_t, std::vector<std::int64_t>> free_;
  std::int64_t end_ = 0;
};

}  // namespace tessera
