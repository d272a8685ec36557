// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/free_runs.h"

#include <iterator>

#include "tessera/assert.h"

namespace tessera {

void FreeRuns::insert(std::int64_t offset, std::int64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void FreeRuns::add(std::int64_t offset, std::int64_t bytes) {
  std::int64_t begin = offset;
  std::int64_t end = offset + bytes;
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == end) {
    end += next->second;
    by_size_.erase({next->second, next->first});
    next = by_offset_.erase(next);
  }
  if (next != by_offset_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      begin = before->first;
      by_size_.erase({before->second, before->first});
      by_offset_.erase(before);
    }
  }
  insert(begin, end - begin);
}

void FreeRuns::remove(std::int64_t offset, std::int64_t bytes) {
  auto at = by_offset_.upper_bound(offset);
  TESSERA_ASSERT(at != by_offset_.begin(), "only free bytes are taken");
  --at;
  const auto [begin, whole] = *at;
  const std::int64_t behind = begin + whole - (offset + bytes);
  TESSERA_ASSERT(behind >= 0, "only free bytes are taken");
  by_size_.erase({whole, begin});
  by_offset_.erase(at);
  if (offset > begin) insert(begin, offset - begin);
  if (behind > 0) insert(offset + bytes, behind);
}

FreeRuns::Run FreeRuns::best(std::int64_t bytes) const {
  const auto found = by_size_.lower_bound({bytes, 0});
  return found == by_size_.end() ? Run{} : Run{found->second, found->first};
}

FreeRuns::Run FreeRuns::ending_at(std::int64_t end) const {
  const auto behind = by_offset_.lower_bound(end);
  if (behind == by_offset_.begin()) return {};
  const auto last = std::prev(behind);
  return last->first + last->second == end ? Run{last->first, last->second} : Run{};
}

}  // namespace tessera
