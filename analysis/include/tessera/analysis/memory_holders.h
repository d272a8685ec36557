// SPDX-License-Identifier: Apache-2.0
// Who holds a rank's memory at a moment, by class and buffer.
//
// The idea: memory samples are changes, so those up to a moment say what is still held.
//
//   TESSERA_ASSIGN(const storage::MemorySeries series, trace.reader().memory(rank));
//   TESSERA_ASSIGN(const auto buffers, trace.reader().buffers());
//   for (const Holder& holder : memory_at(series, buffers, /*sample=*/100).holders) print(holder);
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// Buffers of one name, unit and class that are held at once.
struct Holder {
  std::string name;  // "ag_out"
  std::string unit;
  MemoryClass memory_class = MemoryClass::temporary;
  Bytes bytes{};
  std::int64_t count = 0;
};

struct MemoryMoment {
  Time time = 0;
  Bytes allocated{}, reserved{};
  std::array<Bytes, memory_class_count>
      by_class{};               // those on the device and reserved_unused sum to reserved
  std::vector<Holder> holders;  // the largest first; equal ones by name
};

/// After sample `sample`, which is the last one if there are no as many. Nothing without samples.
/// `buffers`: by ascending id.
MemoryMoment memory_at(const storage::MemorySeries& series,
                       std::span<const storage::BufferRow> buffers, std::size_t sample);

/// The same for many moments of one series: what is held every few thousand samples is kept, so
/// that a moment costs no walk from the begin.
///
///   const HeldMemory held(series);
///   for (const std::size_t sample : asked) print(held.at(series, buffers, sample));
class HeldMemory {
 public:
  explicit HeldMemory(const storage::MemorySeries& series);

  /// As `memory_at`. `series`: the one that it was made of.
  MemoryMoment at(const storage::MemorySeries& series, std::span<const storage::BufferRow> buffers,
                  std::size_t sample) const;

 private:
  struct Held {
    Bytes bytes{};
    std::int64_t count = 0;
  };
  using ByBuffer = std::map<std::int64_t, Held>;  // and class
  static void take(const storage::MemorySeries& series, std::size_t from, std::size_t to,
                   ByBuffer& held);

  // Before sample 0, and every few thousand.
  std::vector<std::vector<std::pair<std::int64_t, Held>>> kept_;
};

}  // namespace tessera::analysis
