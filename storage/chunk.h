// SPDX-License-Identifier: Apache-2.0
// Packed runs of up to 4096 spans or memory samples of one rank.
//
// The idea: a chunk stands alone. Its header (a row's plain columns) says what it covers, its
// checksum covers header and data, and decoding needs nothing but the chunk.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/storage/trace_reader.h"
#include "tessera/trace.h"

namespace tessera::storage {

inline constexpr std::size_t chunk_count_max = 4096;

/// One span of a lane that is being recorded.
struct SpanEntry {
  std::int32_t op;
  Time begin, ready, end;
};

/// In the place of a stream: spans of all streams of a rank, and in the header of other chunks.
inline constexpr std::int32_t all_streams = -3, memory_stream = -1, steps_stream = -2;

struct ChunkHeader {
  Rank rank = 0;  // the first one of steps
  std::int32_t stream = memory_stream;
  std::int64_t seq = 0;  // the step of steps
  std::int64_t count = 0;
  Time t0 = 0, t1 = 0;

  /// "span chunk (rank 3, stream 1, seq 0)".
  std::string describe() const;
};

/// The value of the checksum column.
std::int64_t chunk_checksum(const ChunkHeader& header, std::span<const std::uint8_t> data);

/// As versions 1 and 2 had them, of one stream. Replaces `data`; fills count, t0 and t1 of
/// `header`. REQUIRES: 1 to chunk_count_max entries.
void encode_spans(std::span<const SpanEntry> spans, ChunkHeader& header,
                  std::vector<std::uint8_t>& data);

/// Appends to `lane` the spans that intersect [begin, end); a span without duration counts where
/// it begins. Fails: corrupt, naming the chunk; `lane` is then unspecified.
Status decode_spans(const ChunkHeader& header, std::span<const std::uint8_t> data, Time begin,
                    Time end, Lane& lane);
/// Appends all samples of a chunk of version 1, which has all by itself. Fails: corrupt,
/// not_supported (a memory class of a later version).
Status decode_samples(const ChunkHeader& header, std::span<const std::uint8_t> data,
                      MemorySeries& series);

}  // namespace tessera::storage
