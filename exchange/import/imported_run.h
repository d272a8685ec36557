// SPDX-License-Identifier: Apache-2.0
// What importers fill: a run in the words of its source, before it becomes a trace.
//
// The idea: a format tells what it knows and nothing else. Unknown stays unknown: rank -1, a text
// of id 0, no members of a group. What several formats need (matching collectives, aligning clocks,
// lanes without overlaps, steps, sums) is done once, after all files were read.
//
//   ImportedRank& rank = run.rank(3, source.path());
//   const std::int32_t lane = rank.lane("compute", StreamRole::compute, run);
//   rank.spans.push_back({.begin = t0, .end = t1, .name = run.text("gemm"), .lane = lane});
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/memory_class.h"
#include "tessera/status.h"
#include "tessera/trace.h"

namespace tessera::exchange {

/// An index into ImportedRun::texts; 0 is "".
using TextId = std::int32_t;

/// What c10d calls a process group that nobody has described.
inline constexpr std::string_view undescribed = "undefined";

/// A process group. Groups of the same description and size are one communicator of the trace.
struct ImportedGroup {
  std::string name;         // what all members call it
  std::string description;  // a title: "fsdp", "default_pg"; "": the name
  std::vector<Rank> ranks;  // members, ascending; empty: unknown
  std::int32_t size = 0;    // 0: unknown
};

/// A row of spans: a stream of a device, a thread. Rows of ranks with the same name become one
/// stream of the trace, so names are by use ("compute", "nccl fsdp", "main thread"), without ids
/// that differ between ranks. Spans of a lane may nest; each depth becomes a stream of its own.
struct ImportedLane {
  TextId name = 0;
  StreamRole role = StreamRole::host;
};

/// One collective as one rank saw it.
struct ImportedCollective {
  std::int32_t group = -1;     // index into ImportedRun::groups
  std::int64_t sequence = -1;  // the source's number within the group; -1: unknown, order counts
  Bytes bytes{};               // as nccl-tests: all_gather, reduce_scatter: the full buffer
  DType dtype = DType::float32;
  bool dtype_known = false;
  TextId algorithm = 0;
};

struct ImportedSpan {
  Time begin = 0, end = 0;       // ns of the rank's clock, see ImportedRank
  TextId name = 0;               // label of the op; equal ones of several ranks become one op
  std::int32_t lane = 0;         // index into the rank's lanes
  std::int32_t collective = -1;  // index into the rank's collectives; REQUIRES: the kind is one
  std::int32_t step = unknown_step;
  TextId unit = 0, module = 0;
  OpKind kind = OpKind::compute;
  Phase phase = Phase::none;
  Reason reason = Reason::none;
  Bytes bytes{};  // copied, moved; of collectives see there

  static constexpr std::int32_t unknown_step = -1;  // told by the rank's steps
};

/// A change of the rank's device memory.
struct ImportedMemory {
  Time time = 0;
  Bytes delta{};      // > 0 allocation, < 0 release
  Bytes allocated{};  // after it
  Bytes reserved{};   // after it; less than allocated: unknown
  TextId name = 0, unit = 0;
  MemoryClass memory_class = MemoryClass::temporary;
};

struct ImportedStep {
  std::int64_t number = 0;  // the source's
  Time begin = 0, end = 0;
};

struct ImportedDiagnostic {
  DiagnosticSeverity severity = DiagnosticSeverity::info;
  std::string code;  // "missing_rank", "collective_mismatch", ...
  Rank rank = -1;
  Time time = 0;  // of the rank's clock, if it has one
  std::string message;
};

struct FlightDumps;
class ImportedRun;

/// What one process or device has recorded.
struct ImportedRank {
  Rank rank = -1;      // -1: unknown, becomes the next free one
  std::string source;  // the file, for messages
  std::string host;
  // Since 1970 or since some boot: a clock that ranks of one host share. Times of other kinds begin
  // anywhere. Both are aligned by collectives where ranks have some in common.
  bool shared_clock = false;
  bool device_times = false;  // ends of collectives are a device's, not when a host noticed
  std::vector<ImportedLane> lanes;
  std::vector<ImportedSpan> spans;  // in any order
  std::vector<ImportedCollective> collectives;
  std::vector<ImportedMemory> memory;  // ascending in time
  std::vector<ImportedStep> steps;     // ascending; empty: unknown
  Time offset = 0;                     // to add to all times; found by align_clocks

  /// The lane of that name, made if there is none.
  std::int32_t lane(std::string_view name, StreamRole role, ImportedRun& run);
};

class ImportedRun {
 public:
  ImportedRun() { text(""); }

  TextId text(std::string_view text);
  const std::string& text(TextId id) const { return texts_[static_cast<std::size_t>(id)]; }

  /// The rank of that number, made if there is none: several files may tell of one. -1 makes one of
  /// an unknown number. Valid until the run is gone.
  ImportedRank& rank(Rank number, const std::string& source);
  /// In order of arrival.
  std::deque<ImportedRank>& ranks() { return ranks_; }
  const std::deque<ImportedRank>& ranks() const { return ranks_; }

  /// The group of that name and those members (ascending; empty: unknown); a size or description
  /// that is known later is kept.
  std::int32_t group(const ImportedGroup& group);
  const std::vector<ImportedGroup>& groups() const { return groups_; }

  /// Something that the trace lacks: "python_function events". Summed up in one warning.
  void lost(std::string_view what, std::int64_t count = 1);
  /// A sentence with {} where the number stands, said once with the sum over all files.
  void warn_count(const std::string& sentence, std::int64_t count);
  /// A sentence for people, said once.
  void warn(std::string sentence);
  /// All of the above as sentences.
  std::vector<std::string> warnings() const;

  // What is known of the run as a whole; ranks and recorded_ranks are found out.
  TraceRun facts;
  std::int32_t world = 0;  // ranks of the run as its files say; 0: unknown
  std::vector<ImportedDiagnostic> diagnostics;
  std::shared_ptr<FlightDumps> flight_dumps;  // until all files are read: flight_dumps.h

 private:
  std::deque<std::string> texts_;
  std::unordered_map<std::string_view, TextId> text_ids_;  // of texts_
  std::deque<ImportedRank> ranks_;
  std::vector<ImportedGroup> groups_;
  std::map<std::pair<std::string, std::vector<Rank>>, std::int32_t> group_ids_;
  std::map<std::string, std::int64_t, std::less<>> lost_;
  std::map<std::string, std::int64_t> counted_;
  std::vector<std::string> sentences_;
};

}  // namespace tessera::exchange
