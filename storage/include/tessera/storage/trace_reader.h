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

#include <memory>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/trace.h"

namespace tessera::storage {

using StreamRow = StreamRecord<std::string>;
using CommunicatorRow = CommunicatorRecord<std::string>;
using UnitRow = UnitRecord<std::string>;
using OpRow = OpRecord<std::string>;
using BufferRow = BufferRecord<std::string>;
using DiagnosticRow = DiagnosticRecord<std::string>;
using KernelRow = TraceKernel;

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

template <class T>
using OwnedColumn = std::vector<T>;

/// The `rank_step` summary: columns of size steps * ranks, entry [step * ranks + rank].
struct RankSteps : RankStepColumns<OwnedColumn> {
  std::int32_t ranks = 0;
  std::int32_t steps = 0;
};

struct TraceInfo {
  TraceRun run;
  std::int32_t steps = 0;
  Time end = 0;  // the latest end of any step, ns; 0 without steps
  std::vector<StreamRow> streams;
  std::vector<CommunicatorRow> communicators;
  std::vector<UnitRow> units;
  std::string content_hash;
};

class TraceReader {
 public:
  /// Fails: io_error (missing, a directory, unreadable), corrupt (not SQLite, not a trace,
  /// truncated, an unfinished recording), not_supported (a newer format), each naming the file.
  static Result<TraceReader> open(const std::string& path);

  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  const TraceInfo& info() const;

  /// All ops, ascending id.
  Result<std::vector<OpRow>> ops() const;
  Result<std::vector<BufferRow>> buffers() const;
  /// The spans of `rank` that intersect [begin, end) and no others, by ascending stream id; streams
  /// without such spans are left out. A span without duration counts where it begins. Reads only
  /// the chunks concerned. Empty if the rank was not recorded.
  Result<std::vector<Lane>> lanes(Rank rank, Time begin, Time end) const;
  /// All memory samples of `rank`; empty if it was not recorded.
  Result<MemorySeries> memory(Rank rank) const;
  Result<RankSteps> rank_steps() const;
  Result<std::vector<PeakMemory>> peak_memory() const;
  Result<std::vector<DiagnosticRow>> diagnostics() const;
  /// By op, then rank. Empty if nobody knew any.
  Result<std::vector<KernelRow>> kernels() const;
  /// Ascending ids of the ops that `op` waited for besides its own stream.
  Result<std::vector<std::int32_t>> waited_for(std::int32_t op) const;

  /// Reads everything and recomputes the content hash. Fails: corrupt, if it differs from the
  /// stored one or a chunk's checksum is wrong.
  Status verify() const;

 private:
  struct State;
  explicit TraceReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::storage
