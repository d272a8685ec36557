// SPDX-License-Identifier: Apache-2.0
// Runs of neighbouring free bytes that one stream may use, found by their size and by their place.
//
//   runs.add(0, 512);
//   runs.add(512, 512);                     // one run of 1024 now
//   const FreeRuns::Run run = runs.best(800);  // {0, 1024}
//
// The idea: mostly there are few runs, and a list is looked through faster than a tree is kept
// balanced. What does not fit in the list is in trees until they are empty again.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace tessera {

class FreeRuns {
 public:
  struct Run {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;  // 0: there is none

    std::int64_t end() const { return offset + bytes; }
  };
  static constexpr std::size_t listed_most = 48;

  /// Joins [offset, offset + bytes) with the runs beside it. REQUIRES: it touches no run's bytes.
  void add(std::int64_t offset, std::int64_t bytes);
  /// REQUIRES: [offset, offset + bytes) lies in one run.
  void remove(std::int64_t offset, std::int64_t bytes);

  /// The smallest run that holds `bytes`, of equal ones that with the lowest offset.
  Run best(std::int64_t bytes) const;
  Run ending_at(std::int64_t end) const;
  std::size_t size() const { return in_trees() ? by_offset_.size() : listed_.size(); }

 private:
  bool in_trees() const { return !by_offset_.empty(); }
  void add_to_list(Run run);
  void remove_from_list(Run run);
  void move_to_trees();
  void insert(std::int64_t offset, std::int64_t bytes);

  std::vector<Run> listed_;  // by offset
  // Both are empty, or the list is.
  std::map<std::int64_t, std::int64_t> by_offset_;           // to bytes
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // bytes, offset
};

}  // namespace tessera
