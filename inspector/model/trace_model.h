// SPDX-License-Identifier: Apache-2.0
// A trace as the panels need it: small tables at once, ranks when somebody looks at them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "inspector/memory/memory_pyramid.h"
#include "inspector/timeline/span_pyramid.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::inspector {

/// One stream of one rank.
struct LaneData {
  storage::Lane spans;
  std::unique_ptr<SpanPyramid> pyramid;
};

/// What is known about one recorded rank.
struct RankData {
  std::vector<LaneData> lanes;  // ascending stream id
  storage::MemorySeries memory_samples;
  std::unique_ptr<MemoryPyramid> memory;

  const LaneData* lane(std::int32_t stream) const;
};

/// One span: an op on a rank.
struct SpanRef {
  Rank rank = 0;
  std::int32_t stream = 0;
  std::size_t index = 0;
  bool operator==(const SpanRef&) const = default;
};

class TraceModel {
 public:
  /// Fails: what TraceReader::open fails with.
  static Result<std::unique_ptr<TraceModel>> open(const std::string& path);

  const storage::TraceInfo& info() const { return reader_.info(); }
  const TraceRun& run() const { return reader_.info().run; }
  const storage::RankSteps& steps() const { return steps_; }
  const std::vector<PeakMemory>& peaks() const { return peaks_; }
  const std::vector<storage::DiagnosticRow>& diagnostics() const { return diagnostics_; }

  /// REQUIRES: an id of this trace.
  const storage::OpRow& op(std::int32_t id) const;
  const storage::StreamRow& stream(std::int32_t id) const;
  /// nullptr if the op is no collective.
  const storage::CommunicatorRow* communicator(const storage::OpRow& op) const;
  std::vector<std::int32_t> waited_for(std::int32_t op) const;
  /// Of a collective on `rank`, as the communication library says; 0: unknown.
  Time kernel_time(Rank rank, std::int32_t op) const;

  bool recorded(Rank rank) const;
  /// Loads the rank on first use; without spans if it was not recorded or cannot be read.
  const RankData& rank(Rank rank);

  /// Streams worth a lane, compute first: those with spans on `rank`.
  std::vector<std::int32_t> lanes_of(Rank rank);
  /// The span of op `id` on `rank`.
  std::optional<SpanRef> find(Rank rank, std::int32_t op);

  /// Begin of the first and end of the last rank in `step`.
  std::pair<Time, Time> step_range(std::int32_t step) const;
  /// The last step, or nothing if the trace has none.
  std::int32_t last_step() const { return steps_.steps - 1; }
  /// The rank that computed longest in the last step, among the recorded ones.
  Rank slowest_recorded() const;

 private:
  explicit TraceModel(storage::TraceReader reader) : reader_(std::move(reader)) {}

  storage::TraceReader reader_;
  std::vector<storage::OpRow> ops_;
  storage::RankSteps steps_;
  std::vector<PeakMemory> peaks_;
  std::vector<storage::DiagnosticRow> diagnostics_;
  std::vector<storage::KernelRow> kernels_;  // by op, then rank
  std::map<Rank, RankData> ranks_;
};

/// The colour class of an op.
OpClass class_of(const storage::OpRow& op);

}  // namespace tessera::inspector
