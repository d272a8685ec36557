// SPDX-License-Identifier: Apache-2.0
// A metric of every rank in every step.
//
// The idea: 16,384 ranks and 1,000 steps are 16 million numbers, and ranks of a step are alike, so
// each is kept as 32 bits above the lowest of its step; only where some are further apart than that
// all are kept as they are.
//
//   MetricTable table(Metric::wait, /*ranks=*/2);
//   table.add_step(std::vector<std::int64_t>{100, 120});
//   table.at(/*step=*/0, /*rank=*/1);  // 120
//   table.range(/*step=*/0).median;    // 110
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/types.h"

namespace tessera::analysis {

/// Columns of `rank_step`: ns, `peak_memory` bytes (the step's highest allocated). `transfer`:
/// inside collectives after their last member has arrived, so it tells slow links. `other`: what
/// neither compute nor an exposed collective explains, so the host, its optimizer, copies, files.
enum class Metric : std::uint8_t {
  step_time,
  compute,
  exposed,
  wait,
  peak_memory,
  transfer,
  other,
  // Parts of `other`, of recorded ranks and by their spans: the host's CPU computes; files are read
  // or written, and it does not; nothing at all runs, as the program has issued nothing.
  cpu,
  files,
  host
};
inline constexpr int step_metric_count = 7;  // the first ones: columns of `rank_step`, of all ranks
inline constexpr int metric_count = 10;

/// Of one step, over its ranks; the median as `analysis::median`.
struct MetricRange {
  std::int64_t low = 0, median = 0, high = 0;
};

class MetricTable {
 public:
  MetricTable() = default;
  /// Without steps. REQUIRES: ranks >= 0.
  MetricTable(Metric metric, std::int32_t ranks) : metric_(metric), ranks_(ranks) {}

  Metric metric() const { return metric_; }
  std::int32_t ranks() const { return ranks_; }
  std::int32_t steps() const { return steps_; }
  std::size_t size() const {
    return static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(steps_);
  }

  /// Room for so many steps.
  void reserve(std::int32_t steps);
  /// Appends a step, ns or bytes by rank. REQUIRES: one of each rank.
  void add_step(std::span<const std::int64_t> values);
  /// Of the last step `rank` is not known, as in imported traces: its value is to be the step's
  /// median, so that nobody stands out.
  void set_unknown(Rank rank);

  /// REQUIRES of all: a step and a rank of the table.
  std::int64_t at(std::int32_t step, Rank rank) const {
    const std::size_t i = index(step, rank);
    return wide_.empty() ? ranges_[static_cast<std::size_t>(step)].low + std::int64_t{narrow_[i]}
                         : wide_[i];
  }
  const MetricRange& range(std::int32_t step) const {
    return ranges_[static_cast<std::size_t>(step)];
  }
  bool known(std::int32_t step, Rank rank) const {
    return unknown_.empty() || index(step, rank) >= unknown_.size() || !unknown_[index(step, rank)];
  }
  /// All ranks of one step.
  std::vector<std::int64_t> step(std::int32_t step) const;
  /// Those of a step from `first` on, as many as `to` has. REQUIRES: ranks of the table.
  void copy(std::int32_t step, Rank first, std::span<std::int64_t> to) const;
  /// Calls use(rank, values) for each rank, ascending; `values`: those of all steps. A few ranks
  /// are collected at a time, as neighbours of a step lie beside each other.
  template <class F>
  void for_each_rank(F use) const;

  // Differences count as shares of the median, or of this where that is less: a rank that waits
  // 20 us where others wait 10 us is not odd in a step of a second. 0: always of the median.
  double unit = 0;

 private:
  std::size_t index(std::int32_t step, Rank rank) const {
    return static_cast<std::size_t>(step) * static_cast<std::size_t>(ranks_) +
           static_cast<std::size_t>(rank);
  }
  void widen();

  Metric metric_ = Metric::step_time;
  std::int32_t ranks_ = 0, steps_ = 0;
  std::vector<MetricRange> ranges_;    // by step
  std::vector<std::uint32_t> narrow_;  // [step * ranks + rank], above the lowest of the step
  std::vector<std::int64_t> wide_;     // or as they are
  std::vector<bool> unknown_;          // likewise, as far as there are any
};

template <class F>
void MetricTable::for_each_rank(F use) const {
  constexpr Rank at_once = 16;  // of 4 bytes: a cache line of each step
  const auto length = static_cast<std::size_t>(steps_);
  std::vector<std::int64_t> values(at_once * length);
  std::array<std::int64_t, at_once> of_step{};
  for (Rank first = 0; first < ranks_; first += at_once) {
    const Rank end = std::min(first + at_once, ranks_);
    const std::span<std::int64_t> some =
        std::span(of_step).first(static_cast<std::size_t>(end - first));
    for (std::int32_t step = 0; step < steps_; ++step) {
      copy(step, first, some);
      std::size_t to = static_cast<std::size_t>(step);
      for (const std::int64_t value : some) {
        values[to] = value;
        to += length;
      }
    }
    for (Rank rank = first; rank < end; ++rank) {
      const std::size_t from = static_cast<std::size_t>(rank - first) * length;
      use(rank, std::span<const std::int64_t>(values).subspan(from, length));
    }
  }
}

}  // namespace tessera::analysis
