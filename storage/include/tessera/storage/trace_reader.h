// SPDX-License-Identifier: Apache-2.0
// Reads a trace file, wherever it was recorded.
//
// The idea: ordinary tables become vectors of rows, per-rank columns are decoded only for the rank
// and the time range that is looked at.
//
//   auto reader = TraceReader::open("run.tessera");
//   auto lanes = reader->lanes(/*rank=*/0, 0, reader->info().end);
//
// Functions that return a Result fail with io_error, corrupt (naming file and chunk) or
// not_supported (an enumerator of a later version). A reader may be used from several threads; they
// take turns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/status.h"
#include "tessera/storage/step_summary.h"
#include "tessera/trace.h"

namespace tessera::storage {

using StreamRow = StreamRecord<std::string>;
using CommunicatorRow = CommunicatorRecord<std::string>;
using UnitRow = UnitRecord<std::string>;
using OpRow = OpRecord<std::string>;
using BufferRow = BufferRecord<std::string>;
using DiagnosticRow = DiagnosticRecord<std::string>;
using KernelRow = TraceKernel;
/// `blocks` of what it derives from is empty.
struct MemoryShortageRow : TraceMemoryShortage {
  std::vector<MemoryBlock> map;  // by address
};

/// Spans of one stream of one rank in ascending time: parallel columns.
struct Lane {
  Rank rank = 0;
  std::int32_t stream = 0;
  std::vector<std::int32_t> op;
  std::vector<Time> begin, ready, end;
};

/// Memory of one rank in ascending time: parallel columns. Entry k holds the state after sample k.
struct MemorySeries {
  Rank rank = 0;
  std::vector<Time> time;
  std::vector<std::int32_t> buffer;
  std::vector<MemoryClass> memory_class;
  std::vector<Bytes> delta, allocated, reserved;
};

/// Allocations of one buffer and class that are held at once.
struct HeldBuffer {
  std::int32_t buffer = -1;
  MemoryClass memory_class = MemoryClass::temporary;
  Bytes bytes{};
  std::int64_t count = 0;
};

template <class T>
using OwnedColumn = std::vector<T>;

/// The `rank_step` summary: columns of size steps * ranks, entry [step * ranks + rank].
struct RankSteps : RankStepColumns<OwnedColumn> {
  std::int32_t ranks = 0;
  std::int32_t steps = 0;
};

/// The step whose rank 0 is entry `first` of the columns. REQUIRES: they have all its ranks.
RankStepBatch batch_of(const RankSteps& steps, std::int32_t step, std::size_t first);

struct TraceInfo {
  TraceRun run;
  std::int32_t steps = 0;
  // The latest end of any step, ns; 0 without steps. If the recording is unfinished: of its latest
  // event.
  Time end = 0;
  // The recorder was stopped, or is still at work: steps that are not complete have no summary, and
  // content_hash is "".
  bool unfinished = false;
  std::vector<StreamRow> streams;
  std::vector<CommunicatorRow> communicators;
  std::vector<UnitRow> units;
  std::string content_hash;
};

/// How much is recorded, of all ranks.
struct RecordedSize {
  std::int64_t spans = 0, samples = 0;
};

/// A chunk of spans: when they are, and how many; what the file calls it.
struct SpanStretch {
  Time begin = 0, end = 0;
  std::int64_t spans = 0;
  std::int32_t stream = 0;
  std::int64_t seq = 0;
};

/// What decides how an op looks.
struct OpSort {
  std::int32_t id = 0;
  std::int32_t stream = 0;
  OpKind kind = OpKind::compute;
  Phase phase = Phase::none;
  Reason reason = Reason::none;
};

/// What ops waited for besides their own streams: pairs by ascending op, then what it waited for.
struct OpWaits {
  std::vector<std::int32_t> op, after;

  /// Ascending; those of `id`.
  std::span<const std::int32_t> of(std::int32_t id) const {
    const auto [begin, end] = std::equal_range(op.begin(), op.end(), id);
    return std::span(after).subspan(static_cast<std::size_t>(begin - op.begin()),
                                    static_cast<std::size_t>(end - begin));
  }
};

class TraceReader {
 public:
  /// Fails: io_error (missing, a directory, unreadable), corrupt (not SQLite, not a trace,
  /// truncated, other tables than those of a trace, ids that name nothing, stopped before anything
  /// was recorded), not_supported (a newer format), each naming
  /// the file. An unfinished recording opens as it is at this moment.
  static Result<TraceReader> open(const std::string& path);

  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  const TraceInfo& info() const;

  /// All ops, ascending id.
  Result<std::vector<OpRow>> ops() const;
  /// Those with ids in [from, to).
  Result<std::vector<OpRow>> ops(std::int32_t from, std::int32_t to) const;
  /// The first `most` of those with ids from `from` on.
  Result<std::vector<OpRow>> first_ops(std::int32_t from, std::int32_t most) const;
  /// The same as `ops` without texts, in a fraction of the time.
  Result<std::vector<OpSort>> op_sorts(std::int32_t from, std::int32_t to) const;
  /// The least id of an op, and one past the largest; equal if there is none.
  Result<std::pair<std::int32_t, std::int32_t>> op_range() const;
  /// Those of them that are collectives.
  Result<std::vector<OpRow>> collectives() const;
  Result<std::vector<BufferRow>> buffers() const;
  /// The spans of `rank` that intersect [begin, end) and no others, by ascending stream id; streams
  /// without such spans are left out. A span without duration counts where it begins. Reads only
  /// the chunks concerned. Empty if the rank was not recorded. `stream`: of this one only.
  Result<std::vector<Lane>> lanes(Rank rank, Time begin, Time end,
                                  std::optional<std::int32_t> stream = {}) const;
  /// All memory samples of `rank`; empty if it was not recorded.
  Result<MemorySeries> memory(Rank rank) const;
  /// Those in [begin, end). Reads only the chunks concerned, and spans of about that time.
  Result<MemorySeries> memory(Rank rank, Time begin, Time end) const;
  /// What `rank` holds by the samples before `time`, ascending by buffer and class. What ranks and
  /// steps have in common is added up once, so it takes a small part of reading these samples.
  Result<std::vector<HeldBuffer>> held_before(Rank rank, Time time) const;
  /// What chunks of all ranks claim to have.
  Result<RecordedSize> recorded_size() const;
  /// The chunks of `rank`, in the order of recording.
  Result<std::vector<SpanStretch>> span_stretches(Rank rank) const;
  /// The spans of one of them.
  Result<std::vector<Lane>> lanes(Rank rank, const SpanStretch& stretch) const;
  /// What the file calls the chunks of samples of `rank`, in the order of recording.
  Result<std::vector<std::int64_t>> sample_chunks(Rank rank) const;
  /// The samples of one of them. Reads spans of about that time, too.
  Result<MemorySeries> chunk_memory(Rank rank, std::int64_t seq) const;
  /// Chunks of spans and samples that were unpacked so far.
  std::int64_t chunks_read() const;
  /// All of it; or the steps [from, to), which `RankSteps::step` begins with. REQUIRES: the trace
  /// has these steps.
  Result<RankSteps> rank_steps(std::int32_t from = 0, std::optional<std::int32_t> to = {}) const;
  /// What it says over all ranks, and over all steps; none if the file has no such summary.
  Result<std::optional<StepSummary>> step_summary() const;
  Result<std::vector<PeakMemory>> peak_memory() const;
  Result<std::vector<DiagnosticRow>> diagnostics() const;
  /// In the order of arrival; of simulated runs.
  Result<std::vector<MemoryShortageRow>> memory_shortages() const;
  /// By op, then rank. Empty if nobody knew any.
  Result<std::vector<KernelRow>> kernels() const;
  /// The first `most` of those behind the one of `op` and `rank`, whether there is such a one.
  Result<std::vector<KernelRow>> kernels_after(std::int32_t op, Rank rank, std::int32_t most) const;
  /// What the ops with ids in [from, to) waited for.
  Result<OpWaits> waits(std::int32_t from, std::int64_t to) const;
  /// The other way round: ascending ids of the first ops that waited for `op`, `most` of them,
  /// among the 65,536 after it.
  Result<std::vector<std::int32_t>> waiting_for(std::int32_t op, std::int32_t most) const;

  /// Recomputes the content hash, by which a change of any table shows; the data of chunks, whose
  /// checksums are compared when they are read, is left out. It takes about as long as reading the
  /// tables. Fails: corrupt. An unfinished recording has no hash to compare.
  Status verify_tables() const;
  /// Reads everything: a sentence for each chunk (1000 at most) and table that is damaged, none if
  /// the trace is whole. Fails: io_error, corrupt (the file is so damaged that rows cannot be
  /// found).
  Result<std::vector<std::string>> find_damage() const;
  /// Fails: corrupt, with the first sentence of `find_damage`.
  Status verify() const;

 private:
  struct State;
  explicit TraceReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::storage
