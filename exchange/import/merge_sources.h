// SPDX-License-Identifier: Apache-2.0
// The files that become one trace: that they are of one run, and what each is taken for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::exchange {

inline constexpr Time merge_time_max = Time{1} << 60;  // 36 years: sums of such do not overflow

struct MergeSource {
  std::string path;
  storage::TraceReader reader;
  storage::RankSteps steps;
};

/// What one rank did, from one file, by the clock of that file.
struct MergeRank {
  Rank rank = 0;
  std::size_t source = 0;
  struct Span {
    std::int32_t op = 0;
    Time begin = 0, ready = 0, end = 0;
  };
  std::vector<Span> spans;  // ascending by op
  storage::MemorySeries memory;

  const Span* find(std::int32_t op) const;
};

struct MergeOp {
  storage::OpRow row;
  std::size_t source = 0;  // whose reader knows what it waited for
};

struct MergeSources {
  std::vector<MergeSource> sources;
  std::vector<MergeRank> ranks;  // ascending; one of each rank that any file has recorded
  std::map<std::int32_t, MergeOp> ops;
  std::vector<storage::BufferRow> buffers;
  TraceRun run;  // of all
  std::vector<std::string> warnings;

  const storage::TraceInfo& info(std::size_t source) const { return sources[source].reader.info(); }
  const MergeRank* find(Rank rank) const;
  /// Null: not a collective.
  const storage::CommunicatorRow* communicator(const MergeOp& op) const;
};

/// Fails: as `merge_traces`.
Result<MergeSources> open_merge_sources(const std::vector<std::string>& files);

}  // namespace tessera::exchange
