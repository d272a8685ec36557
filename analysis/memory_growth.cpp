// SPDX-License-Identifier: Apache-2.0
#include "analysis/memory_growth.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "analysis/parted_ranks.h"
#include "tessera/analysis/median.h"
#include "tessera/analysis/trace.h"

namespace tessera::analysis {
namespace {

constexpr std::int32_t growing_steps_min = 5, short_run = 8;
constexpr std::int32_t stretches_max = 8;
constexpr double growth_share_min = 0.01;  // of the first steady peak
constexpr double above_differences = 3;    // times what steps of one stretch differ
constexpr double most_uneven = 3;          // increments of a short run, the largest to the smallest

struct Growth {
  std::int64_t from = 0, to = 0;
  double steps = 1;  // between them
  double share() const {
    return static_cast<double>(to - from) / static_cast<double>(std::max<std::int64_t>(1, from));
  }
};

/// A few steps show a leak only if each of them adds about as much.
std::optional<Growth> growth_of_few(const std::vector<std::int64_t>& peaks) {
  std::int64_t least = peaks[1] - peaks[0], most = least;
  for (std::size_t k = 1; k < peaks.size(); ++k) {
    least = std::min(least, peaks[k] - peaks[k - 1]);
    most = std::max(most, peaks[k] - peaks[k - 1]);
  }
  if (least <= 0 || static_cast<double>(most) > most_uneven * static_cast<double>(least)) return {};
  return Growth{peaks.front(), peaks.back(), static_cast<double>(peaks.size() - 1)};
}

std::optional<Growth> growth_of(const std::vector<std::int64_t>& peaks) {
  const auto steps = static_cast<std::int32_t>(peaks.size());
  if (steps < growing_steps_min) return {};
  if (steps < short_run) return growth_of_few(peaks);
  const std::int32_t stretches = std::min(stretches_max, steps / 2);
  std::vector<std::int64_t> floors, differences;
  for (std::int32_t k = 0; k < stretches; ++k) {
    const auto begin = peaks.begin() + std::int64_t{k} * steps / stretches;
    const auto end = peaks.begin() + std::int64_t{k + 1} * steps / stretches;
    const auto [low, high] = std::minmax_element(begin, end);
    floors.push_back(*low);
    differences.push_back(*high - *low);
  }
  std::int32_t rises = 0, falls = 0;
  for (std::size_t k = 1; k < floors.size(); ++k) {
    rises += floors[k] > floors[k - 1] ? 1 : 0;
    falls += floors[k] < floors[k - 1] ? 1 : 0;
  }
  // What is cached in the beginning rises once, and what depends on the data falls, too.
  if (falls > 0 || 4 * rises < 3 * (stretches - 1)) return {};
  const Growth growth{floors.front(), floors.back(),
                      static_cast<double>(steps) * (stretches - 1) / stretches};
  const auto differ = static_cast<double>(median(std::move(differences)));
  if (static_cast<double>(growth.to - growth.from) < above_differences * differ) return {};
  return growth;
}

}  // namespace

void add_growth(const MetricTable& table, std::vector<Finding>& out) {
  const std::int32_t first = first_steady(0, table.steps()), steps = table.steps() - first;
  std::vector<Rank> growing;
  Growth most;
  for (Rank rank = 0; rank < table.ranks(); ++rank) {
    std::vector<std::int64_t> peaks;
    for (std::int32_t step = first; step < table.steps(); ++step) {
      peaks.push_back(table.at(step, rank));
    }
    const auto growth = growth_of(peaks);
    if (!growth || growth->share() < growth_share_min) continue;
    growing.push_back(rank);
    if (growth->share() > most.share()) most = *growth;
  }
  if (growing.empty()) return;
  const double each = static_cast<double>(most.to - most.from) / most.steps;
  const bool all = std::ssize(growing) == table.ranks();
  Finding& f = out.emplace_back();
  f.kind = FindingKind::memory_growth;
  f.title = fmt::format("Memory {}grows by {:.1f} MiB every step",
                        all ? "" : "of " + text_of_ranks(growing, /*begins=*/false) + " ",
                        each / (1 << 20));
  f.evidence = fmt::format(
      "Over {} steps the least that a step needs rises again and again, from {:.2f} to {:.2f} GiB.",
      steps, static_cast<double>(most.from) / (1 << 30), static_cast<double>(most.to) / (1 << 30));
  f.advice = "Something is kept from step to step: compare who holds memory at two steps' ends.";
  f.cost = most.share();
  f.rank = all ? -1 : growing.front();
  f.step = table.steps() - 1;
}

}  // namespace tessera::analysis
