// SPDX-License-Identifier: Apache-2.0
// Unpacks the memory samples of a rank, with what they share with others.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "storage/chunk.h"
#include "storage/database.h"
#include "storage/read_spans.h"
#include "storage/sample_decoder.h"

namespace tessera::storage {

/// The samples of one rank after the other.
class SampleReader {
 public:
  /// `version`: of the file's format. `database` and `spans` must outlive it.
  SampleReader(const Database& database, const SpanReader& spans, std::uint32_t version);
  ~SampleReader();

  /// All samples of `rank`. Fails: corrupt, not_supported, io_error.
  Result<MemorySeries> read(Rank rank);
  /// Those in [begin, end).
  Result<MemorySeries> read(Rank rank, Time begin, Time end);
  /// The numbers of its chunks, ascending. Fails: io_error, corrupt (more samples than a file of
  /// that size has).
  Result<std::vector<std::int64_t>> chunks(Rank rank);
  /// Those of one of them.
  Result<MemorySeries> read_chunk(Rank rank, std::int64_t seq);
  /// What the rank holds by those before `time`.
  Result<std::vector<HeldBuffer>> held_before(Rank rank, Time time);
  /// Appends those of one chunk. Fails: as `read`.
  Status append(const ChunkHeader& header, Blob data, MemorySeries& series);

 private:
  struct Times;
  /// Fails: corrupt, where it has more entries than any recording of that size.
  Status check_claim(Rank rank) const;
  Status load_times(Rank rank);
  /// Only those around [begin, end], which is enough if samples lie at edges.
  Status load_times(Rank rank, Time begin, Time end);
  SampleContext context();
  Result<std::vector<HeldBuffer>> changes(const ChunkHeader& header, Blob data);
  Status append_near(const ChunkHeader& header, Blob data, MemorySeries& series);
  Status append_all(Rank rank, Time begin, Time end, MemorySeries& series);
  Status append_shared(const ChunkHeader& header, Blob data, MemorySeries& series);

  const Database& database_;
  const SpanReader& spans_;
  const std::uint32_t version_;
  std::unique_ptr<Times> times_;  // of the spans of a rank
  Rank counted_ = -1;
  std::int64_t entries_ = 0;  // of that rank so far
  // Sums of chunks that others share theirs with, of so many samples.
  std::map<std::tuple<Rank, std::int64_t, std::int64_t>, std::vector<HeldBuffer>> shared_sums_;
};

}  // namespace tessera::storage
