// SPDX-License-Identifier: Apache-2.0
// The memory of one rank at every zoom.
//
// The idea: a pyramid of the highest sample over 8, 64, 512, ... samples. A pixel column shows the
// classes at its highest moment, so a peak of a single event stays visible however far one zooms
// out.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/memory_class.h"
#include "tessera/types.h"

namespace tessera::inspector {

using MemoryStack = std::array<Bytes, memory_class_count>;

class MemoryPyramid {
 public:
  /// Parallel columns in ascending time; entry k is the state from time[k] on. `allocated` counts
  /// what is on the device, or, of the host's, what is not.
  MemoryPyramid(const std::vector<Time>& time, const std::vector<MemoryClass>& classes,
                const std::vector<Bytes>& delta, const std::vector<Bytes>& allocated,
                const std::vector<Bytes>& reserved, bool on_device = true);

  std::size_t size() const { return time_->size(); }
  /// The sample in force at `time`, or -1 before the first.
  std::ptrdiff_t at(Time time) const;
  /// The highest sample in force somewhere in [from, to), the earliest of equals; -1 if none.
  std::ptrdiff_t highest(Time from, Time to) const;
  /// Bytes by class after sample `i`; reserved_unused is what the allocator holds beyond.
  MemoryStack stack(std::ptrdiff_t i) const;
  Time time(std::ptrdiff_t i) const { return (*time_)[static_cast<std::size_t>(i)]; }
  Bytes allocated(std::ptrdiff_t i) const;
  Bytes reserved(std::ptrdiff_t i) const;
  /// The most that was reserved at any sample: an allocator gives memory back, too.
  Bytes most_reserved() const { return most_reserved_; }
  /// The classes sum to the allocator's own counter at every sample.
  bool consistent() const { return consistent_; }

 private:
  std::size_t higher(std::size_t a, std::size_t b) const;

  const std::vector<Time>* time_;
  const std::vector<MemoryClass>* classes_;
  const std::vector<Bytes>* delta_;
  const std::vector<Bytes>* allocated_;
  const std::vector<Bytes>* reserved_;
  std::vector<MemoryStack> checkpoints_;            // before sample 0, 64, 128, ...
  std::vector<std::vector<std::uint32_t>> levels_;  // index of the highest sample
  Bytes most_reserved_{};
  bool consistent_ = true;
};

}  // namespace tessera::inspector
