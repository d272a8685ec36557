// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/metric_table.h"

#include <algorithm>
#include <array>
#include <limits>

#include "tessera/analysis/median.h"
#include "tessera/assert.h"

namespace tessera::analysis {
namespace {

/// As `median`. Of many values it looks only among those that lie about the middle, which counts
/// of all in so many stretches tell.
std::uint32_t median_of(std::span<const std::uint32_t> values, std::uint32_t highest) {
  constexpr std::size_t stretches = 1024, many = 1024;
  if (highest == 0) return 0;
  if (values.size() < many) return median(std::vector(values.begin(), values.end()));
  int shift = 0;
  while (highest >> shift >= stretches) ++shift;
  std::array<std::uint32_t, stretches> counts{};
  for (const std::uint32_t value : values) ++counts[value >> shift];
  const std::size_t middle = values.size() / 2;
  // The stretches of the two values in the middle, and how many lie before them.
  std::size_t first = 0, before = 0;
  while (before + counts[first] < middle) before += counts[first++];
  std::size_t last = first, until = before + counts[first];
  while (until <= middle) until += counts[++last];
  std::vector<std::uint32_t> near;
  near.reserve(until - before);
  for (const std::uint32_t value : values) {
    const std::size_t at = value >> shift;
    if (first <= at && at <= last) near.push_back(value);
  }
  const auto nth = near.begin() + static_cast<std::ptrdiff_t>(middle - before);
  std::nth_element(near.begin(), nth, near.end());
  if (values.size() % 2 == 1) return *nth;
  const std::uint32_t below = *std::max_element(near.begin(), nth);
  return below + (*nth - below) / 2;
}

}  // namespace

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
  const std::size_t start = narrow_.size();
  narrow_.resize(start + values.size());
  const std::span<std::uint32_t> above = std::span(narrow_).subspan(start);
  for (std::size_t k = 0; k < values.size(); ++k) {
    above[k] = static_cast<std::uint32_t>(values[k] - low);
  }
  ranges_.push_back({low, low + median_of(above, static_cast<std::uint32_t>(apart)), high});
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
  std::vector<std::int64_t> values(static_cast<std::size_t>(ranks_));
  copy(step, 0, values);
  return values;
}

void MetricTable::copy(std::int32_t step, Rank first, std::span<std::int64_t> to) const {
  const std::size_t from = index(step, first);
  if (!wide_.empty()) {
    std::copy_n(&wide_[from], to.size(), to.begin());
    return;
  }
  const std::int64_t low = ranges_[static_cast<std::size_t>(step)].low;
  const std::uint32_t* const above = narrow_.data() + from;
  for (std::size_t k = 0; k < to.size(); ++k) to[k] = low + std::int64_t{above[k]};
}

}  // namespace tessera::analysis
