// SPDX-License-Identifier: Apache-2.0
// A TraceSink that writes rows into a database, on the thread that calls it.
//
// The idea: each `save` makes the database a trace of what was recorded so far; chunks that are not
// full yet are then in it under the numbers that they will have, and are replaced later, so that
// the content at the end does not depend on it. The first error is kept, later calls do nothing and
// `finish` returns it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/database.h"
#include "storage/held_memory.h"
#include "storage/lane_buffers.h"
#include "storage/sample_chunk.h"
#include "storage/span_chunk.h"
#include "storage/span_lanes.h"
#include "storage/step_cuts.h"
#include "storage/text_ids.h"
#include "tessera/storage/step_summary.h"
#include "tessera/trace.h"

namespace tessera::storage {

class TraceRows : public TraceSink {
 public:
  /// Makes the schema in an empty `database`, which must outlive the rows.
  /// `scratch`: as TraceWriterOptions has it.
  static Result<std::unique_ptr<TraceRows>> create(Database& database, bool scratch = false);
  ~TraceRows() override;

  void begin(const TraceRun& run) override;
  void stream(const TraceStream& stream) override;
  void communicator(const TraceCommunicator& communicator) override;
  void unit(const TraceUnit& unit) override;
  void op(const TraceOp& op) override;
  void spans(const SpanBatch& spans) override;
  void kernel(const TraceKernel& kernel) override;
  void buffer(const TraceBuffer& buffer) override;
  void memory(std::span<const MemorySample> samples) override;
  void peak_memory(const PeakMemory& peak) override;
  void rank_steps(const RankStepBatch& steps) override;
  void diagnostic(const TraceDiagnostic& diagnostic) override;
  void memory_shortage(const TraceMemoryShortage& shortage) override;
  /// Commits all calls so far. Fails: as `finish`.
  Status save();
  /// Writes what is still buffered and commits. Fails: invalid_argument (calls that contradict each
  /// other), io_error.
  Status finish() override;

  const Status& status() const { return status_; }
  /// After a successful `finish`.
  const std::string& content_hash() const { return content_hash_; }

 private:
  struct Statements;

  TraceRows(Database& database, bool scratch);
  /// False: the call is to do nothing, because something failed or `begin` is missing.
  bool ready();
  void keep(Status status);
  bool has_rank(Rank rank, const char* what);
  std::int32_t intern(std::string_view text);
  /// A row of the record's table.
  template <class Record>
  void write(const Record& record);
  void write_meta(std::string_view key, std::string_view value);
  void write_ranks(const TraceRun& run);
  void write_spans(ChunkHeader& header, const SpanRun& spans, GivenChunk given);
  void write_samples(ChunkHeader& header, std::span<const MemorySample> samples, GivenChunk given);
  /// `sql`: removes the rows of `header`'s lane with the numbers behind its own.
  void remove_parts(const char* sql, const ChunkHeader& header, std::int64_t parts);
  void write_summary();
  Status close();

  Database& database_;
  std::unique_ptr<Statements> statements_;
  Status status_;
  const bool scratch_;
  std::string content_hash_;

  std::int32_t ranks_ = 0;  // 0: `begin` was not called
  std::int32_t steps_ = 0;
  Time end_ = 0;
  std::optional<StepSums> sums_;  // of rank_step
  std::int64_t peaks_ = 0, shortages_ = 0;
  TextIds strings_;
  bool whole_run() const {
    return recorded_from_ <= 0 && recorded_to_ == std::numeric_limits<std::int32_t>::max();
  }
  void write_held();

  std::int32_t recorded_from_ = 0, recorded_to_ = 0;  // steps
  bool records_memory_ = true;
  KnownOps ops_;
  HeldMemory held_;  // before the first step that is recorded
  SpanEncoder span_encoder_{ops_};
  std::int32_t spans_step_ = -1;  // the latest that has spans
  std::int32_t begun_step_ = -1;  // of the ranks of the last spans
  std::unique_ptr<RecentEdges> edges_;
  std::unique_ptr<SpanLanes> lanes_;
  std::unique_ptr<StepCuts> cuts_;
  std::unique_ptr<SampleEncoder> encoder_;
  std::unique_ptr<LaneBuffers<MemorySample>> samples_;
  std::vector<std::uint8_t> data_;  // of the chunk being written
};

}  // namespace tessera::storage
