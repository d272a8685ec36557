// SPDX-License-Identifier: Apache-2.0
// Unpacks the spans of a rank, with what they share with others.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "storage/database.h"
#include "storage/span_chunk.h"

namespace tessera::storage {

/// Which spans of a rank are wanted: those that intersect [begin, end), of one stream or all.
struct SpanRange {
  Time begin = 0, end = 0;
  std::optional<std::int32_t> stream = {};
};

/// Counts the spans that chunks claim, so that a forged file is no longer to read than it is large.
class ClaimedSpans {
 public:
  explicit ClaimedSpans(std::int64_t file_size);
  /// Fails: corrupt, where the rank of `header` has more than any recording of that size.
  Status add(const ChunkHeader& header);

 private:
  std::int64_t most_;
  std::unordered_map<Rank, std::int64_t> by_rank_;
};

/// May be used by several threads.
class SpanReader {
 public:
  /// `database` must outlive it.
  explicit SpanReader(const Database& database) : database_(database) {}

  /// The lanes of `rank`, ascending by stream, without those that have nothing in `range`. Fails:
  /// corrupt, not_supported, io_error.
  Result<std::vector<Lane>> read(Rank rank, const SpanRange& range) const;
  /// Its chunks, in the order of recording. Fails: io_error, corrupt (more spans than a file of
  /// that size has).
  Result<std::vector<SpanStretch>> stretches(Rank rank) const;
  /// Those of one chunk, as `read`.
  Result<std::vector<Lane>> read_stretch(Rank rank, const SpanStretch& stretch) const;
  /// Appends those of one chunk to `lanes`, in any order. Fails: as `read`.
  Status append(const ChunkHeader& header, Blob data, const SpanRange& range,
                std::vector<Lane>& lanes) const;

  /// Chunks so far, with those of samples.
  std::int64_t unpacked() const { return unpacked_; }
  void count_chunk() const { ++unpacked_; }

 private:
  using Shared = std::shared_ptr<const SpanColumns>;
  struct Known {
    Rank rank;
    std::int64_t seq, count;
    Shared spans;
  };
  Result<Shared> model(Rank rank, std::int64_t seq, const ChunkHeader& like, int depth) const;
  Shared known(Rank rank, std::int64_t seq, std::int64_t count) const;
  void remember(Known known) const;
  Result<Shared> decode(const ChunkHeader& header, Blob data, int depth) const;

  const Database& database_;
  mutable std::atomic<std::int64_t> unpacked_ = 0;
  mutable std::mutex mutex_;
  mutable std::deque<Known> known_;  // the latest that are wanted again; guarded by mutex_
};

}  // namespace tessera::storage
