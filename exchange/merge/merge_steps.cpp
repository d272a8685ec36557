// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_steps.h"

#include <algorithm>

namespace tessera::exchange {
namespace {

constexpr std::int32_t rows_at_once = 65536;

std::size_t place_of(std::int32_t number) { return static_cast<std::size_t>(number); }

storage::RankSteps no_steps(std::size_t ranks) {
  storage::RankSteps none;
  none.begin.assign(ranks, MergeSteps::unknown);
  for (auto* column :
       {&none.end, &none.compute, &none.communication, &none.exposed, &none.blocking, &none.wait}) {
    column->resize(ranks);
  }
  none.peak_allocated.resize(ranks);
  none.peak_reserved.resize(ranks);
  return none;
}

}  // namespace

MergeSteps::MergeSteps(const MergeSources& all, const MergeClocks& clocks)
    : all_(all), clocks_(clocks), source_of_(place_of(all.run.ranks)) {
  for (const MergeRank& rank : all.ranks) source_of_[place_of(rank.rank)] = rank.source;
}

void MergeSteps::take(std::size_t source, const storage::RankSteps& of, std::size_t k,
                      std::size_t rank) {
  const std::size_t from = k * source_of_.size() + rank;
  storage::RankSteps& to = read_[k];
  if (of.end[from] <= of.begin[from] || to.begin[rank] != unknown) return;
  if (source_of_[rank].value_or(source) != source) return;
  to.begin[rank] = clocks_.aligned(source, of.begin[from]);
  to.end[rank] = clocks_.aligned(source, of.end[from]);
  to.compute[rank] = of.compute[from];
  to.communication[rank] = of.communication[from];
  to.exposed[rank] = of.exposed[from];
  to.blocking[rank] = of.blocking[from];
  to.wait[rank] = of.wait[from];
  to.peak_allocated[rank] = of.peak_allocated[from];
  to.peak_reserved[rank] = of.peak_reserved[from];
}

Status MergeSteps::read(std::int32_t from) {
  const std::int32_t ranks = all_.run.ranks;
  const std::int32_t to = std::min(all_.steps(), from + std::max(1, rows_at_once / ranks));
  from_ = from;
  read_.assign(place_of(to - from), no_steps(place_of(ranks)));
  for (std::size_t s = 0; s < all_.sources.size(); ++s) {
    const MergeSource& source = all_.sources[s];
    const std::int32_t end = std::min(to, source.reader.info().steps);
    if (end <= from) continue;
    TESSERA_ASSIGN(const storage::RankSteps of, source.reader.rank_steps(from, end));
    TESSERA_TRY(
        check_merge_times(source, {&of.begin, &of.end, &of.compute, &of.communication, &of.wait}));
    for (std::size_t k = 0; k < place_of(end - from); ++k) {
      for (std::size_t rank = 0; rank < source_of_.size(); ++rank) take(s, of, k, rank);
    }
  }
  return {};
}

Result<storage::RankSteps*> MergeSteps::at(std::int32_t step) {
  if (step < from_ || step - from_ >= std::ssize(read_)) TESSERA_TRY(read(step));
  return &read_[place_of(step - from_)];
}

}  // namespace tessera::exchange
