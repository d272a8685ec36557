// SPDX-License-Identifier: Apache-2.0
#include "storage/read_spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "storage/column_kernels.h"
#include "storage/read_chunks.h"

namespace tessera::storage {
namespace {

// Of 24 bytes for each of up to 16,384 spans: the models of a run of thousands of steps.
constexpr std::size_t known_max = 128;
// Spans of a rank in memory are no larger than operations in the file, a few of which may have
// several; a small file may have some anyway.
constexpr std::int64_t entry_size = 28, per_byte = 4, allowed_anyway = 16 << 20;

constexpr SpanRange whole_run{
    std::numeric_limits<Time>::min(), std::numeric_limits<Time>::max(), {}};

constexpr const char* lanes_sql =
    "SELECT rank, stream, seq, count, t0, t1, checksum, data FROM span_chunk"
    " WHERE rank = ?1 AND (stream = ?2 OR stream BETWEEN ?3 AND ?4) AND t0 < ?5 AND t1 >= ?6"
    " ORDER BY stream, seq";
constexpr const char* stretches_sql =
    "SELECT stream, seq, count, t0, t1 FROM span_chunk WHERE rank = ?1"
    " AND (stream = ?2 OR stream >= 0) ORDER BY stream, seq";
// One by its key.
constexpr const char* model_sql =
    "SELECT rank, stream, seq, count, t0, t1, checksum, data FROM span_chunk"
    " WHERE rank = ? AND stream = ? AND seq = ?";

Lane& lane_of(Rank rank, std::int32_t stream, std::vector<Lane>& lanes) {
  for (auto lane = lanes.rbegin(); lane != lanes.rend(); ++lane) {
    if (lane->stream == stream) return *lane;
  }
  Lane& lane = lanes.emplace_back();
  lane.rank = rank;
  lane.stream = stream;
  return lane;
}

/// Whether they intersect it; a span without duration counts where it begins.
bool in_range(Time begin, Time end, const SpanRange& range) {
  return begin < range.end && (begin >= range.begin || end > range.begin);
}

/// Those of one stream that intersect the range.
void append_stream(const SpanColumns& spans, const std::vector<std::uint16_t>& places,
                   const SpanRange& range, Lane& lane) {
  for (const std::uint16_t i : places) {
    if (!in_range(spans.begin[i], spans.end[i], range)) continue;
    lane.op.push_back(spans.op(i));
    lane.begin.push_back(spans.begin[i]);
    lane.ready.push_back(spans.ready[i]);
    lane.end.push_back(spans.end[i]);
  }
}

/// All of one stream.
void append_stream(const SpanColumns& spans, const std::vector<std::uint16_t>& places, Lane& lane) {
  const std::size_t old = lane.op.size(), n = places.size();
  lane.op.resize(old + n);
  for (std::size_t k = 0; k < n; ++k) lane.op[old + k] = spans.op(places[k]);
  const auto append = [&](const std::vector<Time>& from, std::vector<Time>& to) {
    to.resize(old + n);
    for (std::size_t k = 0; k < n; ++k) to[old + k] = from[places[k]];
  };
  append(spans.begin, lane.begin);
  append(spans.ready, lane.ready);
  append(spans.end, lane.end);
}

void append_spans(Rank rank, const SpanColumns& spans, const SpanRange& range,
                  std::vector<Lane>& lanes) {
  const bool whole = range.begin <= least_of(spans.begin) && most_of(spans.end) < range.end;
  for (const auto& [stream, places] : spans.plan->by_stream()) {
    if (range.stream && *range.stream != stream) continue;
    Lane& lane = lane_of(rank, stream, lanes);
    whole ? append_stream(spans, places, lane) : append_stream(spans, places, range, lane);
  }
}

void put_in_order(std::vector<Lane>& lanes) {
  std::erase_if(lanes, [](const Lane& lane) { return lane.op.empty(); });
  std::sort(lanes.begin(), lanes.end(),
            [](const Lane& a, const Lane& b) { return a.stream < b.stream; });
}

}  // namespace

ClaimedSpans::ClaimedSpans(std::int64_t file_size)
    : most_((per_byte * file_size + allowed_anyway) / entry_size) {}

Status ClaimedSpans::add(const ChunkHeader& header) {
  std::int64_t& claimed = by_rank_[header.rank];
  claimed += std::clamp<std::int64_t>(header.count, 0, span_count_max);
  // Chunks of one stream say each span in their own bytes.
  if (header.stream != all_streams || claimed <= most_) return {};
  return {Code::corrupt, fmt::format("The trace is damaged: rank {} has more spans than any "
                                     "recording of that size.",
                                     header.rank)};
}

SpanReader::Shared SpanReader::known(Rank rank, std::int64_t seq, std::int64_t count) const {
  const std::lock_guard lock(mutex_);
  for (const Known& k : known_) {
    if (k.rank == rank && k.seq == seq && k.count == count) return k.spans;
  }
  return nullptr;
}

Result<SpanReader::Shared> SpanReader::decode(const ChunkHeader& header, Blob data,
                                              int depth) const {
  count_chunk();
  const SpanModel of = [this](Rank rank, std::int64_t seq, const ChunkHeader& like, int deeper) {
    return model(rank, seq, like, deeper);
  };
  TESSERA_ASSIGN(SpanColumns columns, decode_shared_spans(header, data, depth, of));
  return std::make_shared<const SpanColumns>(std::move(columns));
}

Result<SpanReader::Shared> SpanReader::model(Rank rank, std::int64_t seq, const ChunkHeader& like,
                                             int depth) const {
  if (Shared found = known(rank, seq, like.count)) return found;
  TESSERA_ASSIGN(Statement chunk, database_.prepare(model_sql));
  chunk.bind(rank, all_streams, seq);
  Shared spans;
  TESSERA_TRY(for_each_chunk(chunk, [&](const ChunkHeader& header, Blob data) -> Status {
    if (header.count != like.count) return {};
    TESSERA_ASSIGN(spans, decode(header, data, depth));
    return {};
  }));
  if (spans == nullptr) return spans;
  remember({rank, seq, like.count, spans});
  return spans;
}

void SpanReader::remember(Known known) const {
  const std::lock_guard lock(mutex_);
  known_.push_back(std::move(known));
  if (known_.size() > known_max) known_.pop_front();
}

Status SpanReader::append(const ChunkHeader& header, Blob data, const SpanRange& range,
                          std::vector<Lane>& lanes) const {
  if (header.stream != all_streams) {
    count_chunk();
    Lane& lane = lane_of(header.rank, header.stream, lanes);
    return decode_spans(header, data, range.begin, range.end, lane);
  }
  // Others may have built on it.
  Shared spans = known(header.rank, header.seq, header.count);
  if (spans == nullptr) {
    TESSERA_ASSIGN(spans, decode(header, data, 0));
    // Who wants a part of it is about to want the next one.
    const bool whole = range.begin <= header.t0 && header.t1 < range.end;
    if (!whole) remember({header.rank, header.seq, header.count, spans});
  }
  append_spans(header.rank, *spans, range, lanes);
  return {};
}

Result<std::vector<Lane>> SpanReader::read(Rank rank, const SpanRange& range) const {
  TESSERA_ASSIGN(Statement chunks, database_.prepare(lanes_sql));
  constexpr std::int32_t any = std::numeric_limits<std::int32_t>::max();
  chunks.bind(rank, all_streams, range.stream.value_or(0), range.stream.value_or(any), range.end,
              range.begin);
  std::vector<Lane> lanes;
  if (range.begin >= range.end) return lanes;
  ClaimedSpans claimed(database_.size());
  const auto add = [&](const ChunkHeader& header, Blob data) -> Status {
    TESSERA_TRY(claimed.add(header));
    return append(header, data, range, lanes);
  };
  TESSERA_TRY(for_each_chunk(chunks, add));
  put_in_order(lanes);
  return lanes;
}

Result<std::vector<SpanStretch>> SpanReader::stretches(Rank rank) const {
  TESSERA_ASSIGN(Statement chunks, database_.prepare(stretches_sql));
  chunks.bind(rank, all_streams);
  ClaimedSpans claimed(database_.size());
  std::vector<SpanStretch> stretches;
  for (;;) {
    TESSERA_ASSIGN(const bool row, chunks.next());
    if (!row) return stretches;
    ChunkHeader header{rank, chunks.int32(0), chunks.integer(1), chunks.integer(2), 0, 0};
    header.count = std::clamp<std::int64_t>(header.count, 0, span_count_max);
    TESSERA_TRY(claimed.add(header));
    stretches.push_back(
        {chunks.integer(3), chunks.integer(4), header.count, header.stream, header.seq});
  }
}

Result<std::vector<Lane>> SpanReader::read_stretch(Rank rank, const SpanStretch& stretch) const {
  TESSERA_ASSIGN(Statement chunk, database_.prepare(model_sql));
  chunk.bind(rank, stretch.stream, stretch.seq);
  std::vector<Lane> lanes;
  TESSERA_TRY(for_each_chunk(chunk, [&](const ChunkHeader& header, Blob data) {
    return append(header, data, whole_run, lanes);
  }));
  put_in_order(lanes);
  return lanes;
}

}  // namespace tessera::storage
