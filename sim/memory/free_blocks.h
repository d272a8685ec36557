// SPDX-License-Identifier: Apache-2.0
// Free blocks of a caching allocator by stream, size and address.
//
// The idea: a thousand ranks each have a few dozen, and every call of each asks for one. In short
// sorted runs that lie together a search touches two or three cache lines, where a tree touches
// one per step; and many blocks are many runs, so that putting one in moves few others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tessera/assert.h"

namespace tessera::sim {

class FreeBlocks {
 public:
  struct Entry {
    std::int32_t stream = 0;
    std::int32_t block = -1;
    std::int64_t bytes = 0;
    std::int64_t address = 0;

    bool operator<(const Entry& other) const {
      if (stream != other.stream) return stream < other.stream;
      return bytes != other.bytes ? bytes < other.bytes : address < other.address;
    }
  };

  void insert(const Entry& entry) {
    const std::size_t r = run_of(entry);
    if (r == runs_.size()) {
      if (runs_.empty()) runs_.emplace_back();
      return add(runs_.size() - 1, entry);
    }
    add(r, entry);
  }
  /// REQUIRES: it is there.
  void erase(const Entry& entry) {
    const std::size_t r = run_of(entry);
    TESSERA_ASSERT(r < runs_.size(), "only free blocks are taken");
    remove(r, std::lower_bound(runs_[r].begin(), runs_[r].end(), entry));
  }
  /// Removes the smallest of `stream` with at least `bytes`, of equal ones that with the lowest
  /// address, and returns its block; -1: there is none.
  std::int32_t take(std::int32_t stream, std::int64_t bytes) {
    const Entry least{stream, -1, bytes, 0};
    const std::size_t r = run_of(least);
    if (r == runs_.size()) return -1;
    const auto at = std::lower_bound(runs_[r].begin(), runs_[r].end(), least);
    if (at->stream != stream) return -1;
    const std::int32_t block = at->block;
    remove(r, at);
    return block;
  }
  /// f(entry) for those of `stream` with at least `bytes`, smallest first and of equal ones by
  /// address, until it returns true.
  template <class F>
  void any_of_at_least(std::int32_t stream, std::int64_t bytes, F&& f) const {
    const Entry least{stream, -1, bytes, 0};
    for (std::size_t r = run_of(least); r < runs_.size(); ++r) {
      const auto& run = runs_[r];
      for (auto at = std::lower_bound(run.begin(), run.end(), least); at != run.end(); ++at) {
        if (at->stream != stream || f(*at)) return;
      }
    }
  }
  std::vector<Entry> all() const {
    std::vector<Entry> out;
    for (const auto& run : runs_) out.insert(out.end(), run.begin(), run.end());
    return out;
  }

 private:
  static constexpr std::size_t longest = 128;
  using Run = std::vector<Entry>;

  void remove(std::size_t r, Run::const_iterator at) {
    runs_[r].erase(at);
    if (runs_[r].empty()) runs_.erase(runs_.begin() + static_cast<std::ptrdiff_t>(r));
  }
  // The first that may hold `entry`: none ends before it. Behind the last, if all do.
  std::size_t run_of(const Entry& entry) const {
    const auto at = std::partition_point(runs_.begin(), runs_.end(),
                                         [&](const Run& run) { return run.back() < entry; });
    return static_cast<std::size_t>(at - runs_.begin());
  }
  void add(std::size_t r, const Entry& entry) {
    Run& run = runs_[r];
    run.insert(std::lower_bound(run.begin(), run.end(), entry), entry);
    if (run.size() <= longest) return;
    const auto middle = run.begin() + longest / 2;
    Run behind(middle, run.end());
    run.erase(middle, run.end());
    runs_.insert(runs_.begin() + static_cast<std::ptrdiff_t>(r) + 1, std::move(behind));
  }

  std::vector<Run> runs_;  // ascending, none empty but for a moment
};

}  // namespace tessera::sim
