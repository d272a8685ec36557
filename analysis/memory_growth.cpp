// SPDX-License-Identifier: Apache-2.0
#include "analysis/memory_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>

#include "analysis/parted_ranks.h"
#include "tessera/analysis/median.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {
namespace {

using Peaks = std::span<const std::int64_t>;

constexpr std::size_t growing_steps_min = 5, short_end = 8, long_end = 16;
constexpr double growth_share_min = 0.01;  // of the first steady peak
constexpr double most_uneven = 3;          // increments of a short end, the largest to the smallest
constexpr std::size_t ends_tried = 8;      // of which one may grow: eighths of a run
constexpr std::size_t before_min = 3;      // steps before it tell what steps differ by
constexpr std::int64_t above_before = 2;   // the end rises by so many times that
// How much of what the steps of an end differ by its line explains: of few steps nearly all.
constexpr double straight_min = 0.9, straight_min_of_few = 0.95;
// A shorter end is better if so small a part of what the longer one leaves unexplained is left.
constexpr double unexplained_part = 0.25, unexplained_min = 0.001;
constexpr std::size_t quarters = 4;
constexpr std::int64_t least_rise = 8;  // of a quarter to the next: a part of the whole

struct Growth {
  std::int64_t from = 0, to = 0;
  std::size_t steps = 0;  // of the end that grows
  double each = 0;        // bytes per step
  double straight = 0;    // how much its line explains, 0 to 1
  double share() const {
    return static_cast<double>(to - from) / static_cast<double>(std::max<std::int64_t>(1, from));
  }
};

/// A line by least squares.
struct Line {
  double slope = 0;     // per step
  double explains = 0;  // of the variance, 0 to 1
};

Line line_through(Peaks peaks) {
  const auto n = static_cast<double>(peaks.size());
  double mean = 0, both = 0, of_steps = 0, of_peaks = 0;
  for (const std::int64_t peak : peaks) mean += static_cast<double>(peak) / n;
  for (std::size_t k = 0; k < peaks.size(); ++k) {
    const double x = static_cast<double>(k) - (n - 1) / 2, y = static_cast<double>(peaks[k]) - mean;
    both += x * y;
    of_steps += x * x;
    of_peaks += y * y;
  }
  if (of_peaks <= 0) return {};
  return {both / of_steps, both / of_steps * (both / of_peaks)};
}

/// A few steps show a leak only if each of them adds about as much.
std::optional<Growth> growth_of_few(Peaks peaks) {
  std::int64_t least = peaks[1] - peaks[0], most = least;
  for (std::size_t k = 1; k < peaks.size(); ++k) {
    least = std::min(least, peaks[k] - peaks[k - 1]);
    most = std::max(most, peaks[k] - peaks[k - 1]);
  }
  if (least <= 0 || static_cast<double>(most) > most_uneven * static_cast<double>(least)) return {};
  const Line line = line_through(peaks);
  return Growth{peaks.front(), peaks.back(), peaks.size(), line.slope, line.explains};
}

/// Many need not: their line rises, and so does the least of each quarter.
std::optional<Growth> growth_of_many(Peaks peaks) {
  std::array<std::int64_t, quarters> floors{};
  for (std::size_t k = 0; k < quarters; ++k) {
    const std::size_t begin = k * peaks.size() / quarters;
    const Peaks quarter = peaks.subspan(begin, (k + 1) * peaks.size() / quarters - begin);
    floors[k] = *std::min_element(quarter.begin(), quarter.end());
  }
  const std::int64_t rise = floors.back() - floors.front();
  if (rise <= 0) return {};
  for (std::size_t k = 1; k < quarters; ++k) {
    if ((floors[k] - floors[k - 1]) * least_rise < rise) return {};
  }
  const Line line = line_through(peaks);
  if (line.explains < (peaks.size() < long_end ? straight_min_of_few : straight_min)) return {};
  return Growth{floors.front(), floors.back(), peaks.size(), line.slope, line.explains};
}

bool straighter(const Growth& shorter, const Growth& longer) {
  const double left = 1 - longer.straight;
  return left > unexplained_min && 1 - shorter.straight < unexplained_part * left;
}

/// Of the ends that grow the straightest one, and of equals the longest.
std::optional<Growth> growth_of(Peaks peaks) {
  std::optional<Growth> best;
  for (std::size_t part = ends_tried; part > 0; --part) {
    const std::size_t steps = peaks.size() * part / ends_tried;
    if (steps < growing_steps_min) break;
    const Peaks before = peaks.first(peaks.size() - steps), end = peaks.last(steps);
    if (part < ends_tried && before.size() < before_min) continue;
    const auto growth = steps < short_end ? growth_of_few(end) : growth_of_many(end);
    if (!growth || (best && !straighter(*growth, *best))) continue;
    if (!before.empty()) {
      const auto [low, high] = std::minmax_element(before.begin(), before.end());
      if (growth->to - growth->from < above_before * (*high - *low)) continue;
    }
    best = growth;
  }
  return best;
}

/// Nothing grows by more than the lowest and the highest of all ranks and steps are apart.
bool hardly_moves(const MetricTable& table, std::int32_t first) {
  std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = 0;
  for (std::int32_t step = first; step < table.steps(); ++step) {
    low = std::min(low, table.range(step).low);
    high = std::max(high, table.range(step).high);
  }
  const auto least = static_cast<double>(std::max<std::int64_t>(1, low));
  return low <= high && static_cast<double>(high - low) < growth_share_min * least;
}

}  // namespace

void add_growth(const MetricTable& table, std::vector<Finding>& out) {
  const std::int32_t first = first_steady(0, table.steps());
  if (hardly_moves(table, first)) return;
  std::vector<Rank> growing;
  Growth most;
  table.for_each_rank([&](Rank rank, Peaks peaks) {
    const auto growth = growth_of(peaks.subspan(static_cast<std::size_t>(first)));
    if (!growth || growth->share() < growth_share_min) return;
    growing.push_back(rank);
    if (growth->share() > most.share()) most = *growth;
  });
  if (growing.empty()) return;
  const bool all = std::ssize(growing) == table.ranks();
  const auto steps = static_cast<std::int32_t>(most.steps);
  const std::int32_t since = table.steps() - steps;
  Finding& f = out.emplace_back();
  f.kind = FindingKind::memory_growth;
  f.title = fmt::format("Memory {}grows by {:.1f} MiB every step{}",
                        all ? "" : "of " + text_of_ranks(growing, /*begins=*/false) + " ",
                        most.each / (1 << 20),
                        since == first ? "" : fmt::format(" since step {}", since));
  f.evidence = fmt::format(
      "Over {} steps the least that a step needs rises again and again, from {:.2f} to {:.2f} GiB.",
      steps, static_cast<double>(most.from) / (1 << 30), static_cast<double>(most.to) / (1 << 30));
  f.advice = "Something is kept from step to step: compare who holds memory at two steps' ends.";
  f.cost = most.share();
  f.rank = all ? -1 : growing.front();
  f.step = table.steps() - 1;
}

}  // namespace tessera::analysis
