// SPDX-License-Identifier: Apache-2.0
// What follows from the times of all ranks: they are aligned, and the step is gone through again.
//
// The idea: all that a step needs is handed over as values, so that the sink's thread can do it
// while the rank computes the next one.
//
//   sink.defer(step->size(), [step, replay](TraceSink& rows) { replay->play(*step, rows); });
#pragma once

#include <memory>
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
    /// Of each rank, by its clock: begin and end of each timed operation, then what is of no
    /// interest here; `pitch` numbers.
    std::vector<Time> all;
    std::size_t pitch = 0;
    std::size_t count = 0;  // of timed operations
    std::vector<Exchange> exchanges;
    TraceItems items;

    Bytes size() const;
    const Time* of(std::size_t rank) const { return all.data() + rank * pitch; }
  };

  /// `start`: by rank 0's clock.
  AlignedReplay(Rank ranks, ClockAlignment clocks, Time start)
      : ranks_(static_cast<std::size_t>(ranks)),
        clocks_(std::move(clocks)),
        start_(start),
        replay_(ranks) {}

  /// The next step. What it holds is gone afterwards.
  void play(Step& step, TraceSink& sink);
  void finish(TraceSink& sink) { replay_.finish(sink); }

 private:
  void tighten(const Step& step);

  const std::size_t ranks_;
  ClockAlignment clocks_;
  const Time start_;
  TraceReplay replay_;
};

}  // namespace tessera
