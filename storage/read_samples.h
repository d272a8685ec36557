// SPDX-License-Identifier: Apache-2.0
// Unpacks the memory samples of a rank, with what they share with others.
#pragma once

#include <cstdint>
#include <memory>

#include "storage/chunk.h"
#include "storage/database.h"
#include "storage/read_spans.h"

namespace tessera::storage {

/// The samples of one rank after the other.
class SampleReader {
 public:
  /// `version`: of the file's format. `database` and `spans` must outlive it.
  SampleReader(const Database& database, const SpanReader& spans, std::uint32_t version);
  ~SampleReader();

  /// All samples of `rank`. Fails: corrupt, not_supported, io_error.
  Result<MemorySeries> read(Rank rank);
  /// Appends those of one chunk. Fails: as `read`.
  Status append(const ChunkHeader& header, Blob data, MemorySeries& series);

 private:
  struct Times;
  Status load_times(Rank rank);
  Status append_shared(const ChunkHeader& header, Blob data, MemorySeries& series);

  const Database& database_;
  const SpanReader& spans_;
  const std::uint32_t version_;
  std::unique_ptr<Times> times_;  // of the spans of a rank
  Rank counted_ = -1;
  std::int64_t entries_ = 0;  // of that rank so far
};

}  // namespace tessera::storage
