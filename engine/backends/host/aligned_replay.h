// SPDX-License-Identifier: Apache-2.0
// Aligns the times of all ranks to rank 0's clock and replays the step with them, which yields all
// other columns of the trace.
//
// The idea: a step owns all the values it needs, so that the sink's thread can replay it while the
// rank computes the next one.
//
//   sink.defer(step->size(), [step, replay](TraceSink& rows) { replay->play(*step, rows); });
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/backends/host/clock_alignment.h"
#include "engine/tracing/trace_replay.h"

namespace tessera {

class AlignedReplay {
 public:
  /// A collective of rank 0's group that needs data of all its members.
  struct Exchange {
    std::size_t place = 0;  // among the step's timed operations
    std::shared_ptr<const std::vector<Rank>> members;
  };
  struct Step {
    /// `pitch` numbers per rank, by that rank's clock: begin and end of each timed operation, then
    /// others that this class does not read.
    std::vector<Time> all;
    std::size_t pitch = 0;
    std::size_t count = 0;  // timed operations
    std::vector<Exchange> exchanges;
    TraceItems items;

    Bytes size() const;
    const Time* of(std::size_t rank) const { return all.data() + rank * pitch; }
  };

  /// `start` is the begin of the trace by rank 0's clock. `only`: steps have one column of numbers,
  /// which are of that rank and by its clock, as is `start`; the sink gets nothing else.
  AlignedReplay(Rank ranks, ClockAlignment clocks, Time start, std::optional<Rank> only = {})
      : ranks_(static_cast<std::size_t>(ranks)),
        clocks_(std::move(clocks)),
        start_(start),
        only_(only),
        replay_(ranks) {}

  /// Writes the next step to `sink` and empties `step`.
  void play(Step& step, TraceSink& sink);
  void finish(TraceSink& sink);

 private:
  void tighten(const Step& step);
  void align(const Step& step, std::size_t k, std::span<Time> begin, std::span<Time> end);

  const std::size_t ranks_;
  ClockAlignment clocks_;
  const Time start_;
  const std::optional<Rank> only_;
  TraceReplay replay_;
};

}  // namespace tessera
