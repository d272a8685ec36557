// SPDX-License-Identifier: Apache-2.0
#include "analysis/compared_steps.h"

#include <algorithm>
#include <iterator>

#include "tessera/analysis/median.h"

namespace tessera::analysis {
namespace {

/// Sums of steps, the first of which decides of which ranks something is known.
class SummarySums {
 public:
  /// `first`: the entry of rank 0.
  void add(const storage::RankSteps& rows, std::size_t first) {
    if (steps_++ == 0) choose_ranks(rows, first);
    for (std::size_t k = 0; k < sums_.ranks.size(); ++k) {
      const std::size_t i = first + static_cast<std::size_t>(sums_.ranks[k]);
      sums_.step[k] += rows.end[i] - rows.begin[i];
      sums_.compute[k] += rows.compute[i];
      sums_.exposed[k] += rows.exposed[i];
    }
  }
  /// REQUIRES: a step was added.
  RankMeansOfSteps means() const {
    RankMeansOfSteps means = sums_;
    for (auto* column : {&means.step, &means.compute, &means.exposed}) {
      for (Time& sum : *column) sum /= steps_;
    }
    return means;
  }

 private:
  void choose_ranks(const storage::RankSteps& rows, std::size_t first) {
    const auto known = [&](Rank rank) {
      const std::size_t i = first + static_cast<std::size_t>(rank);
      return rows.begin[i] < rows.end[i];
    };
    bool any = false;
    for (Rank rank = 0; rank < rows.ranks; ++rank) any |= known(rank);
    for (Rank rank = 0; rank < rows.ranks; ++rank) {
      if (!any || known(rank)) sums_.ranks.push_back(rank);
    }
    const std::size_t known_ranks = sums_.ranks.size();
    for (auto* c : {&sums_.step, &sums_.compute, &sums_.exposed}) c->resize(known_ranks);
  }

  Time steps_ = 0;
  RankMeansOfSteps sums_;
};

}  // namespace

LateRank late_rank_of(const RankMeansOfSteps& means) {
  std::vector<Time> busy(means.ranks.size());
  for (std::size_t k = 0; k < busy.size(); ++k) {
    busy[k] = std::max(means.compute[k], means.step[k] - means.exposed[k]);
  }
  const auto most = std::max_element(busy.begin(), busy.end());
  const auto k = static_cast<std::size_t>(most - busy.begin());
  const Time late = *most - median(busy);
  return {means.ranks[k], late, 2 * (means.compute[k] - median(means.compute)) >= late};
}

std::vector<Rank> recorded_in_both(const Trace& a, const Trace& b) {
  std::vector<Rank> ranks;
  std::set_intersection(a.run().recorded_ranks.begin(), a.run().recorded_ranks.end(),
                        b.run().recorded_ranks.begin(), b.run().recorded_ranks.end(),
                        std::back_inserter(ranks));
  return ranks;
}

/// What `rank_step` says of the steps: means over all of them, and each by itself.
Result<RankMeansOfSteps> means_of_steps(const Trace& trace, const ComparedSteps& steps,
                                        BySteps& by) {
  SummarySums all;
  TESSERA_TRY(trace.for_each_step(
      steps.first, steps.end, [&](std::int32_t, const storage::RankSteps& rows, std::size_t first) {
        all.add(rows, first);
        SummarySums sums;
        sums.add(rows, first);
        const RankMeansOfSteps one = sums.means();
        const Time compute = median(one.compute);
        by.compute.push_back(compute);
        by.late.push_back(late_rank_of(one).late);
        by.other.push_back(median(one.step) - compute - median(one.exposed));
      }));
  return all.means();
}

}  // namespace tessera::analysis
