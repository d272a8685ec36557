// SPDX-License-Identifier: Apache-2.0
// A trace with its small tables in memory: what every analysis asks for by id.
//
//   TESSERA_ASSIGN(const analysis::Trace trace, analysis::Trace::open("run.tessera"));
//   const auto& op = trace.op(lane.op[i]);
#pragma once

#include <algorithm>
#include <cstdint>
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

class Trace {
 public:
  /// Whether `open` compares the content hash, which takes about as long as all else that it does,
  /// or the caller does so beside what is shown, with `TraceReader::verify_tables` of its own.
  enum class Check : std::uint8_t { now, later };
  /// Fails: what TraceReader::open, its tables and `verify_tables` fail with; corrupt, where a
  /// number is none that a run can have. So what is shown is what was recorded.
  static Result<Trace> open(const std::string& path, Check check = Check::now);

  const storage::TraceReader& reader() const { return reader_; }
  const storage::TraceInfo& info() const { return reader_.info(); }
  const TraceRun& run() const { return reader_.info().run; }
  const std::vector<storage::OpRow>& ops() const { return ops_; }
  const storage::RankSteps& steps() const { return steps_; }
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

  /// Whether `rank` has spans and memory samples.
  bool recorded(Rank rank) const;
  /// The steps of which there are operations and spans: the first, and one past the last.
  std::pair<std::int32_t, std::int32_t> recorded_steps() const {
    return {std::min(run().recorded_from, steps_.steps), std::min(run().recorded_to, steps_.steps)};
  }
  /// The recorded rank that computed longest in the last step: collectives make step times alike,
  /// so they do not tell who is slow. 0 if no rank was recorded.
  Rank slowest_recorded() const;
  /// The last step's number, -1 without steps.
  std::int32_t last_step() const { return steps_.steps - 1; }
  /// ns: begin of the first and end of the last rank in `step`; the whole run if there is no such
  /// step.
  std::pair<Time, Time> step_range(std::int32_t step) const;
  /// The last step that some rank has begun at `time`; 0 before all and without steps.
  std::int32_t step_at(Time time) const;

 protected:
  explicit Trace(storage::TraceReader reader) : reader_(std::move(reader)) {}

 private:
  void find_step_ranges();

  storage::TraceReader reader_;
  std::vector<storage::OpRow> ops_;
  storage::RankSteps steps_;
  std::vector<PeakMemory> peaks_;
  std::vector<storage::DiagnosticRow> diagnostics_;
  std::vector<storage::MemoryShortageRow> shortages_;
  std::vector<storage::KernelRow> kernels_;
  std::vector<std::pair<Time, Time>> step_ranges_;  // by step, over all ranks
};

}  // namespace tessera::analysis
