// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/aligned_replay.h"

#include <algorithm>
#include <limits>

#include "engine/backends/host/one_rank_sink.h"

namespace tessera {

Bytes AlignedReplay::Step::size() const {
  const std::size_t bytes = all.size() * sizeof(Time) + exchanges.size() * sizeof(Exchange) +
                            items.size() * sizeof(TraceItem);
  return Bytes{static_cast<std::int64_t>(bytes)};
}

// Bounds the clocks by the collectives of the step. No member can leave one that needs data of all
// before the last has entered it, so rank r's begin, by its clock, lies before rank 0's end, and
// its end after rank 0's begin. Each such pair bounds how far r's clock is ahead from both sides;
// the tightest pair of the step counts.
void AlignedReplay::tighten(const Step& step) {
  struct Bounds {
    Time lowest = std::numeric_limits<Time>::min();
    Time highest = std::numeric_limits<Time>::max();
    bool met = false;
  };
  std::vector<Bounds> bounds(ranks_);
  for (const Exchange& exchange : step.exchanges) {
    TESSERA_ASSERT(exchange.place < step.count, "an exchange is a timed operation");
    const Time begin = step.all[2 * exchange.place];
    const Time end = step.all[2 * exchange.place + 1];
    for (Rank rank : *exchange.members) {
      const auto r = static_cast<std::size_t>(rank);
      const Time* theirs = step.of(r) + 2 * exchange.place;
      bounds[r].lowest = std::max(bounds[r].lowest, theirs[0] - end);
      bounds[r].highest = std::min(bounds[r].highest, theirs[1] - begin);
      bounds[r].met = true;
    }
  }
  for (std::size_t r = 1; r < ranks_; ++r) {
    if (!bounds[r].met) continue;
    // The bound counts until the last time of the step: no later time is aligned before the next
    // step, which brings bounds of its own.
    const Time until = *std::max_element(step.of(r), step.of(r) + 2 * step.count);
    clocks_.bound(static_cast<Rank>(r), bounds[r].lowest, bounds[r].highest, until);
  }
}

// Alignment is right to some microseconds, so it may place an end before its begin, or the first
// begin before the start of the trace: both are cut, since durations cannot be negative.
void AlignedReplay::align(const Step& step, std::size_t k, std::span<Time> begin,
                          std::span<Time> end) {
  for (std::size_t r = 0; r < ranks_; ++r) {
    const auto rank = static_cast<Rank>(r);
    const Time* theirs = step.of(only_ ? 0 : r) + 2 * k;
    const auto aligned = [&](Time time) { return only_ ? time : clocks_.aligned(rank, time); };
    begin[r] = std::max<Time>(0, aligned(theirs[0]) - start_);
    end[r] = std::max(begin[r], aligned(theirs[1]) - start_);
  }
}

void AlignedReplay::play(Step& step, TraceSink& sink) {
  TESSERA_ASSERT(
      step.all.size() == step.pitch * (only_ ? 1 : ranks_) && 2 * step.count <= step.pitch,
      "begin and end of every operation on every rank");
  if (!only_) tighten(step);
  std::size_t k = 0;
  const auto next = [&](std::span<Time> begin, std::span<Time> end) {
    TESSERA_ASSERT(k < step.count, "the replay asks for the operations that were timed");
    align(step, k++, begin, end);
  };
  if (only_) {
    OneRankSink own(sink, *only_);
    replay_.play(std::exchange(step.items, {}), next, own);
  } else {
    replay_.play(std::exchange(step.items, {}), next, sink);
  }
}

void AlignedReplay::finish(TraceSink& sink) {
  if (!only_) return replay_.finish(sink);
  OneRankSink own(sink, *only_);
  replay_.finish(own);
}

}  // namespace tessera
