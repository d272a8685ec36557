// SPDX-License-Identifier: Apache-2.0
// The spans of one step, and why each began when it did: a graph that can be
// laid out again with other durations.
//
// The idea: an operation needs what was submitted before it, so in the order of ids one pass
// suffices, and with the recorded durations it gives the recorded times again. Where everything
// that an operation needs was over earlier, the host was late: it was busy issuing if what it
// issued before was late, too, and otherwise it had waited itself.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/analysis/trace.h"

namespace tessera::analysis {

/// An op on a rank.
struct StepSpan {
  std::int32_t op = 0;
  Rank rank = 0;
  std::int32_t stream = 0;
  Time begin = 0, ready = 0, end = 0;
  bool fixed = false;  // of a step before
  // It began `lag` ns after the begin or end of span `bound` (-1: whatever happens, when it did).
  std::int32_t bound = -1;
  bool after_begin = false;  // `lag` counts from the begin: the host issued one after the other
  Time lag = 0;
};

class StepGraph {
 public:
  /// Of `step` on `ranks`. Fails: with what
  /// the reader reports.
  static Result<StepGraph> read(const Trace& trace, std::int32_t step, std::span<const Rank> ranks);

  /// Ascending op, then rank.
  const std::vector<StepSpan>& spans() const { return spans_; }
  /// The members of the collective that span `i` takes part in, as far as they were recorded; `i`
  /// alone for what is no collective.
  std::span<const std::int32_t> members(std::int32_t i) const;
  /// Ends of all spans, in one step and in the one before; and memory that is used again.
  struct Ends {
    std::vector<Time> now, before;
    std::vector<Time> begins, earlier;
  };
  /// By span whether it has a mark.
  using Marks = std::vector<std::uint8_t>;
  /// If those with a mark took `share` less time (collectives: to transfer), and the host, where
  /// `host` says so, for what is bound by it, in this step and, if they are alike, all before: the
  /// ends in a step from which on all are shortened alike, as if none before were.
  void ends_if(const Marks& marked, double share, bool host, Ends& ends) const;

 private:
  /// Consecutive spans of one op.
  struct Range {
    std::int32_t op;
    std::int32_t first, end;
  };
  class Builder;

  void lay_out(const Marks& marked, double share, bool host, bool moved, Ends& ends) const;
  void end_meeting(std::size_t first, const std::vector<Time>& begins, const Marks& marked,
                   double share, std::vector<Time>& ends) const;

  std::vector<StepSpan> spans_;
  std::vector<Time> begins_, ends_;  // of the spans
  std::vector<std::int32_t> twins_;  // by span of the step before: the same one of this step, or -1
  bool repeats_ = false;             // the step before has the same ops
  std::vector<Range> ops_;
  std::vector<std::int32_t> needs_;         // what spans need, one after the other
  std::vector<std::int32_t> needs_end_;     // by span: where its part of needs_ ends
  std::vector<std::int32_t> meeting_;       // spans by meeting, those of an op one after the other
  std::vector<std::int32_t> meeting_size_;  // of the one that a place of meeting_ belongs to
  std::vector<std::int32_t> meeting_at_;    // by span: the first of its meeting in meeting_
};

}  // namespace tessera::analysis
