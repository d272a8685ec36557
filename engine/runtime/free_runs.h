// SPDX-License-Identifier: Apache-2.0
// Runs of neighbouring free bytes that one stream may use, found by their size and by their place.
//
//   runs.add(0, 512);
//   runs.add(512, 512);                     // one run of 1024 now
//   const FreeRuns::Run run = runs.best(800);  // {0, 1024}
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace tessera {

class FreeRuns {
 public:
  struct Run {
    std::int64_t offset = 0;
    std::int64_t bytes = 0;  // 0: there is none
  };

  /// Joins [offset, offset + bytes) with the runs beside it. REQUIRES: it touches no run's bytes.
  void add(std::int64_t offset, std::int64_t bytes);
  /// REQUIRES: [offset, offset + bytes) lies in one run.
  void remove(std::int64_t offset, std::int64_t bytes);

  /// The smallest run that holds `bytes`, of equal ones that with the lowest offset.
  Run best(std::int64_t bytes) const;
  Run ending_at(std::int64_t end) const;
  std::size_t size() const { return by_offset_.size(); }

 private:
  void insert(std::int64_t offset, std::int64_t bytes);

  std::map<std::int64_t, std::int64_t> by_offset_;           // to bytes
  std::set<std::pair<std::int64_t, std::int64_t>> by_size_;  // bytes, offset
};

}  // namespace tessera
