// SPDX-License-Identifier: Apache-2.0
// A trace with its small tables in memory: what every analysis asks for by id.
//
//   TESSERA_ASSIGN(const analysis::Trace trace, analysis::Trace::open("run.tessera"));
//   const auto& op = trace.op(lane.op[i]);
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::analysis {

/// The first of the steps [from, to) that is like the later ones: in step 0 memory is allocated for
/// the first time, so it counts only where it is alone.
inline std::int32_t first_steady(std::int32_t from, std::int32_t to) {
  return to - from > 1 ? std::max(from, 1) : from;
}

class IdPlaces;
class OpPages;

class Trace {
 public:
  /// Whether `open` compares the content hash and reads all of `rank_step`, or the caller does the
  /// one beside what is shown, with `TraceReader::verify_tables` of its own, and reads of the other
  /// what it shows.
  enum class Check : std::uint8_t { now, later };
  /// Which operations are in memory. Collectives are all that a report needs of a trace without
  /// spans.
  enum class Ops : std::uint8_t { all, collectives };
  /// Fails: what TraceReader::open, its tables and `verify_tables` fail with; corrupt, where a
  /// number is none that a run can have. So what is shown is what was recorded.
  static Result<Trace> open(const std::string& path, Check check = Check::now, Ops ops = Ops::all);

  const storage::TraceReader& reader() const { return reader_; }
  const storage::TraceInfo& info() const { return reader_.info(); }
  const TraceRun& run() const { return reader_.info().run; }
  /// Ascending; all, or those that `open` was asked for. After Check::later those of a long run are
  /// read now, and stay.
  const std::vector<storage::OpRow>& ops() const;
  /// Whether they are in memory, rather than read a page at a time as `op` is asked for them.
  bool holds_ops() const { return pages_ == nullptr; }
  /// All where they are in memory, else those of the first and the last two steps.
  const std::vector<storage::OpRow>& typical_ops() const;
  /// Calls use(op) for all of them, ascending. Reads a few at a time where they are not in memory.
  /// Fails: what TraceReader::ops fails with; corrupt, as `open`.
  template <class F>
  Status for_each_op(F use) const;
  /// Frees operations that were asked for longest ago: references to them end.
  void forget_ops();
  /// Why some of them could not be read.
  Status ops_problem() const;
  std::int32_t rank_count() const { return run().ranks; }
  /// Those that are complete.
  std::int32_t step_count() const { return info().steps; }
  /// All of `rank_step`. REQUIRES: `holds_steps`.
  const storage::RankSteps& steps() const;
  /// Whether they are in memory: after Check::now, and where there are few.
  bool holds_steps() const { return steps_.has_value(); }
  /// The rows of `count` steps from `step` on. REQUIRES: the trace has them. Fails: what
  /// TraceReader::rank_steps fails with; corrupt, where a number is none that a run can have.
  Result<storage::RankSteps> step_rows(std::int32_t step, std::int32_t count = 1) const;
  /// Calls use(step, rows, first) for each of the steps [from, to): entry `first` of the columns of
  /// `rows` is its rank 0. Reads a few at a time. Fails: as `step_rows`.
  template <class F>
  Status for_each_step(std::int32_t from, std::int32_t to, F use) const;
  /// What all steps, and all ranks, come to.
  const storage::StepSummary& summary() const { return summary_; }
  /// The first steps, two at most; and the last one: `ranks` rows, none without steps.
  const storage::RankSteps& first_rows() const { return first_rows_; }
  const storage::RankSteps& last_rows() const { return last_rows_; }
  const std::vector<PeakMemory>& peaks() const { return peaks_; }
  const std::vector<storage::DiagnosticRow>& diagnostics() const { return diagnostics_; }
  const std::vector<storage::MemoryShortageRow>& memory_shortages() const { return shortages_; }
  /// By op, then rank.
  const std::vector<storage::KernelRow>& kernels() const { return kernels_; }

  /// An op without kind or texts where the trace has none of that id.
  const storage::OpRow& op(std::int32_t id) const;
  /// A stream named "?" where the trace has none of that id.
  const storage::StreamRow& stream(std::int32_t id) const;
  /// nullptr if the op is no collective.
  const storage::CommunicatorRow* communicator(const storage::OpRow& op) const;
  /// ns that the kernels of collective `op` ran on `rank`'s device; 0: unknown.
  Time kernel_time(Rank rank, std::int32_t op) const;
  /// Ids of the ops that `op` waited for besides its own stream; none if they cannot be read.
  std::vector<std::int32_t> waited_for(std::int32_t op) const;
  /// Ids of the first ops that waited for `op`, `most` of them; none if they cannot be read.
  std::vector<std::int32_t> waiting_for(std::int32_t op, std::int32_t most) const;

  /// Whether `rank` has spans and memory samples.
  bool recorded(Rank rank) const;
  /// The steps of which there are operations and spans: the first, and one past the last.
  std::pair<std::int32_t, std::int32_t> recorded_steps() const {
    return {std::min(run().recorded_from, step_count()), std::min(run().recorded_to, step_count())};
  }
  /// The recorded rank that computed longest in the last step: collectives make step times alike,
  /// so they do not tell who is slow. 0 if no rank was recorded.
  Rank slowest_recorded() const;
  /// The last step's number, -1 without steps.
  std::int32_t last_step() const { return step_count() - 1; }
  /// ns: begin of the first and end of the last rank in `step`; the whole run if there is no such
  /// step.
  std::pair<Time, Time> step_range(std::int32_t step) const;
  /// The last step that some rank has begun at `time`; 0 before all and without steps.
  std::int32_t step_at(Time time) const;

 protected:
  explicit Trace(storage::TraceReader reader) : reader_(std::move(reader)) {}

 private:
  /// `values` with the file's name.
  Status damaged(const Status& values) const;
  Status read_ops(Check check, Ops ops);
  Status read_steps(Check check);
  Status sum_up();
  /// Those with ids in [from, to).
  Result<std::vector<storage::OpRow>> op_rows(std::int32_t from, std::int32_t to) const;

  storage::TraceReader reader_;
  std::string path_;
  std::vector<storage::OpRow> ops_;
  std::shared_ptr<const IdPlaces> places_;  // of `ops_`, by id
  std::shared_ptr<OpPages> pages_;          // in place of `ops_`
  std::optional<storage::RankSteps> steps_;
  storage::RankSteps first_rows_, last_rows_;
  storage::StepSummary summary_;
  std::vector<PeakMemory> peaks_;
  std::vector<storage::DiagnosticRow> diagnostics_;
  std::vector<storage::MemoryShortageRow> shortages_;
  std::vector<storage::KernelRow> kernels_;
};

template <class F>
Status Trace::for_each_op(F use) const {
  if (holds_ops()) {
    for (const storage::OpRow& op : ops_) use(op);
    return {};
  }
  constexpr std::int64_t ids_at_once = 4096;  // rows of 200 bytes and their texts
  TESSERA_ASSIGN(const auto range, reader_.op_range());
  for (std::int64_t from = range.first; from < range.second; from += ids_at_once) {
    const std::int64_t to = std::min<std::int64_t>(from + ids_at_once, range.second);
    TESSERA_ASSIGN(const std::vector<storage::OpRow> ops,
                   op_rows(static_cast<std::int32_t>(from), static_cast<std::int32_t>(to)));
    for (const storage::OpRow& op : ops) use(op);
  }
  return {};
}

template <class F>
Status Trace::for_each_step(std::int32_t from, std::int32_t to, F use) const {
  const auto ranks = static_cast<std::size_t>(rank_count());
  const auto pass = [&](const storage::RankSteps& rows, std::int32_t begin, std::int32_t end) {
    for (std::int32_t step = begin; step < end; ++step) {
      use(step, rows, static_cast<std::size_t>(step - rows.step) * ranks);
    }
  };
  if (holds_steps()) {
    pass(*steps_, from, to);
    return {};
  }
  constexpr std::int32_t rows_at_once = 1 << 14;  // of 72 bytes: a cache holds them
  const std::int32_t steps_at_once = std::max(1, rows_at_once / std::max(1, rank_count()));
  for (std::int32_t step = from; step < to; step += steps_at_once) {
    const std::int32_t end = std::min(step + steps_at_once, to);
    TESSERA_ASSIGN(const storage::RankSteps rows, step_rows(step, end - step));
    pass(rows, step, end);
  }
  return {};
}

}  // namespace tessera::analysis
