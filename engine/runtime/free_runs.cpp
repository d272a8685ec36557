// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/free_runs.h"

#include <algorithm>
#include <iterator>

#include "tessera/assert.h"

namespace tessera {
namespace {

// The first that ends at `offset` or behind it.
template <class Runs>
auto first_to_reach(Runs& listed, std::int64_t offset) {
  return std::lower_bound(
      listed.begin(), listed.end(), offset,
      [](const FreeRuns::Run& run, std::int64_t place) { return run.end() < place; });
}

}  // namespace

void FreeRuns::add_to_list(Run run) {
  auto at = first_to_reach(listed_, run.offset);
  if (at != listed_.end() && at->end() == run.offset) {
    at->bytes += run.bytes;
  } else {
    at = listed_.insert(at, run);
  }
  const auto next = std::next(at);
  if (next == listed_.end() || next->offset != at->end()) return;
  at->bytes += next->bytes;
  listed_.erase(next);
}

void FreeRuns::remove_from_list(Run run) {
  const auto at = first_to_reach(listed_, run.end());
  TESSERA_ASSERT(at != listed_.end() && at->offset <= run.offset, "only free bytes are taken");
  const Run behind{run.end(), at->end() - run.end()};
  at->bytes = run.offset - at->offset;
  if (at->bytes > 0) {
    if (behind.bytes > 0) listed_.insert(std::next(at), behind);
  } else if (behind.bytes > 0) {
    *at = behind;
  } else {
    listed_.erase(at);
  }
}

void FreeRuns::move_to_trees() {
  for (const Run& run : listed_) insert(run.offset, run.bytes);
  listed_.clear();
}

void FreeRuns::insert(std::int64_t offset, std::int64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void FreeRuns::add(std::int64_t offset, std::int64_t bytes) {
  if (!in_trees()) {
    add_to_list({offset, bytes});
    if (listed_.size() > listed_most) move_to_trees();
    return;
  }
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
  if (!in_trees()) {
    remove_from_list({offset, bytes});
    if (listed_.size() > listed_most) move_to_trees();
    return;
  }
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
  if (!in_trees()) {
    Run best;
    for (const Run& run : listed_) {
      if (run.bytes >= bytes && (best.bytes == 0 || run.bytes < best.bytes)) best = run;
    }
    return best;
  }
  const auto found = by_size_.lower_bound({bytes, 0});
  return found == by_size_.end() ? Run{} : Run{found->second, found->first};
}

FreeRuns::Run FreeRuns::ending_at(std::int64_t end) const {
  if (!in_trees()) {
    const auto at = first_to_reach(listed_, end);
    return at != listed_.end() && at->end() == end ? *at : Run{};
  }
  const auto behind = by_offset_.lower_bound(end);
  if (behind == by_offset_.begin()) return {};
  const auto last = std::prev(behind);
  return last->first + last->second == end ? Run{last->first, last->second} : Run{};
}

}  // namespace tessera
