// SPDX-License-Identifier: Apache-2.0
// The files that become one trace: that they are of one run, and what each is taken for.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "tessera/storage/trace_reader.h"

namespace tessera::exchange {

inline constexpr Time merge_time_max = Time{1} << 60;  // 36 years: sums of such do not overflow

struct MergeSource {
  std::string path;
  storage::TraceReader reader;
};

/// A chunk of spans, and the least op in it.
struct MergeChunk {
  storage::SpanStretch stretch;
  std::int32_t first_op = 0;
};

/// A rank and the file that it is taken from.
struct MergeRank {
  Rank rank = 0;
  std::size_t source = 0;
  std::int64_t spans = 0;
  std::vector<MergeChunk> chunks;  // ascending by the least op
};

struct MergeSources {
  std::vector<MergeSource> sources;
  std::vector<MergeRank> ranks;  // ascending; one of each rank that any file has recorded
  std::vector<storage::BufferRow> buffers;
  TraceRun run;  // of all
  std::vector<std::string> warnings;

  const storage::TraceInfo& info(std::size_t source) const { return sources[source].reader.info(); }
  std::int32_t steps() const;
};

/// Fails: corrupt, where a file claims times that no run has, in a way that no reader has to
/// notice.
Status check_merge_times(const MergeSource& source,
                         std::initializer_list<const std::vector<Time>*> all);

/// `what` differs between `one` and `other`.
Status not_one_run(const MergeSources& all, std::size_t one, std::size_t other, std::string what);

/// Without buffers. Reads all spans once. Fails: as `merge_traces`, but for what differs in rows.
Result<MergeSources> open_merge_sources(const std::vector<std::string>& files);

/// Fails: invalid_argument, where they differ; as TraceReader.
Status read_merge_buffers(MergeSources& all);

}  // namespace tessera::exchange
