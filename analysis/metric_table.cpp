// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/metric_table.h"

#include <algorithm>
#include <limits>

#include "tessera/analysis/median.h"
#include "tessera/assert.h"

namespace tessera::analysis {

void MetricTable::add_step(std::span<const std::int64_t> values) {
  TESSERA_ASSERT(values.size() == static_cast<std::size_t>(ranks_), "one value of each rank");
  ++steps_;
  if (values.empty()) return;
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  const std::int64_t low = *lowest, high = *highest;
  const std::uint64_t apart = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (wide_.empty() && apart > std::numeric_limits<std::uint32_t>::max()) widen();
  // The step that is too wide may be the first.
  if (!wide_.empty() || apart > std::numeric_limits<std::uint32_t>::max()) {
    wide_.insert(wide_.end(), values.begin(), values.end());
    ranges_.push_back({low, median(std::vector(values.begin(), values.end())), high});
    return;
  }
  const auto start = static_cast<std::ptrdiff_t>(narrow_.size());
  for (const std::int64_t value : values) {
    narrow_.push_back(static_cast<std::uint32_t>(value - low));
  }
  ranges_.push_back({low, low + median(std::vector(narrow_.begin() + start, narrow_.end())), high});
}

void MetricTable::reserve(std::int32_t steps) {
  ranges_.reserve(static_cast<std::size_t>(steps));
  narrow_.reserve(static_cast<std::size_t>(ranks_) * static_cast<std::size_t>(steps));
}

void MetricTable::widen() {
  wide_.reserve(size());
  for (std::int32_t step = 0; step + 1 < steps_; ++step) {
    for (Rank rank = 0; rank < ranks_; ++rank) {
      wide_.push_back(ranges_[static_cast<std::size_t>(step)].low +
                      std::int64_t{narrow_[index(step, rank)]});
    }
  }
  narrow_ = {};
}

void MetricTable::set_unknown(Rank rank) {
  unknown_.resize(size());
  unknown_[index(steps_ - 1, rank)] = true;
}

std::vector<std::int64_t> MetricTable::step(std::int32_t step) const {
  std::vector<std::int64_t> values;
  values.reserve(static_cast<std::size_t>(ranks_));
  for (Rank rank = 0; rank < ranks_; ++rank) values.push_back(at(step, rank));
  return values;
}

}  // namespace tessera::analysis
