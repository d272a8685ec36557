// SPDX-License-Identifier: Apache-2.0
// What each rank holds, for a recording that begins in the middle of a run.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "tessera/trace.h"

namespace tessera::storage {

class HeldMemory {
 public:
  void add(const MemorySample& sample) {
    Holder& holder = ranks_[sample.rank];
    holder.last = sample;
    std::vector<MemorySample>& same = holder.held[sample.buffer];
    if (sample.delta > Bytes{0}) same.push_back(sample);
    if (sample.delta < Bytes{0} && !same.empty()) same.pop_back();
  }

  /// An allocation for each that is held, at the time of the rank's latest sample, and nothing is
  /// held any more.
  std::vector<MemorySample> take() {
    std::vector<MemorySample> samples;
    for (auto& [rank, holder] : std::exchange(ranks_, {})) {
      Bytes all{};
      for (const auto& [buffer, same] : holder.held) {
        for (const MemorySample& sample : same) all += counted(sample);
      }
      Bytes allocated{holder.last.allocated.value - all.value};
      for (const auto& [buffer, same] : holder.held) {
        for (MemorySample sample : same) {
          allocated += counted(sample);
          sample.time = holder.last.time;
          sample.allocated = allocated;
          sample.reserved = holder.last.reserved;
          samples.push_back(sample);
        }
      }
    }
    return samples;
  }

 private:
  /// What it adds to the allocator's counter.
  static Bytes counted(const MemorySample& sample) {
    return is_on_device(sample.memory_class) ? sample.delta : Bytes{};
  }

  struct Holder {
    MemorySample last;
    std::map<std::int32_t, std::vector<MemorySample>> held;  // by buffer
  };
  std::map<Rank, Holder> ranks_;
};

}  // namespace tessera::storage
