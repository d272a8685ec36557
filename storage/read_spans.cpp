// SPDX-License-Identifier: Apache-2.0
#include "storage/read_spans.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "storage/read_chunks.h"

namespace tessera::storage {
namespace {

// Up to 40 bytes for each of 4,096 spans.
constexpr std::size_t known_max = 192;
// Spans of a rank in memory are no larger than operations in the file, a few of which may have
// several; a small file may have some anyway.
constexpr std::int64_t entry_size = 28, per_byte = 4, allowed_anyway = 16 << 20;

constexpr const char* lanes_sql =
    "SELECT rank, stream, seq, count, t0, t1, checksum, data FROM span_chunk"
    " WHERE rank = ?1 AND (stream = ?2 OR stream BETWEEN ?3 AND ?4) AND t0 < ?5 AND t1 >= ?6"
    " ORDER BY stream, seq";
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

void append_spans(Rank rank, const SpanColumns& spans, const SpanRange& range,
                  std::vector<Lane>& lanes) {
  Lane* lane = nullptr;
  const SpanPlan& plan = *spans.plan;
  for (std::size_t i = 0; i < plan.size(); ++i) {
    const std::int32_t stream = plan.stream(i);
    if (range.stream && *range.stream != stream) continue;
    if (!in_range(spans.begin[i], spans.end[i], range)) continue;
    if (lane == nullptr || lane->stream != stream) lane = &lane_of(rank, stream, lanes);
    lane->op.push_back(plan.ops()[i]);
    lane->begin.push_back(spans.begin[i]);
    lane->ready.push_back(spans.ready[i]);
    lane->end.push_back(spans.end[i]);
  }
}

}  // namespace

SpanReader::Shared SpanReader::known(Rank rank, const ChunkHeader& like) const {
  const std::lock_guard lock(mutex_);
  for (const Known& k : known_) {
    if (k.rank == rank && k.seq == like.seq && k.count == like.count) return k.spans;
  }
  return nullptr;
}

Result<SpanReader::Shared> SpanReader::model(Rank rank, const ChunkHeader& like) const {
  if (Shared found = known(rank, like)) return found;
  TESSERA_ASSIGN(Statement chunk, database_.prepare(model_sql));
  chunk.bind(rank, all_streams, like.seq);
  Shared spans;
  TESSERA_TRY(for_each_chunk(chunk, [&](const ChunkHeader& header, Blob data) -> Status {
    TESSERA_ASSIGN(SpanColumns columns, decode_shared_spans(header, data, true, {}));
    spans = std::make_shared<const SpanColumns>(std::move(columns));
    return {};
  }));
  const std::lock_guard lock(mutex_);
  known_.push_back({rank, like.seq, like.count, spans});
  if (known_.size() > known_max) known_.pop_front();
  return spans;
}

Status SpanReader::append(const ChunkHeader& header, Blob data, const SpanRange& range,
                          std::vector<Lane>& lanes) const {
  if (header.stream != all_streams) {
    Lane& lane = lane_of(header.rank, header.stream, lanes);
    return decode_spans(header, data, range.begin, range.end, lane);
  }
  // A model is likely to be asked for by others next.
  Shared spans = known(header.rank, header);
  if (spans == nullptr) {
    TESSERA_ASSIGN(SpanColumns columns,
                   decode_shared_spans(header, data, false, [this](Rank rank, const auto& like) {
                     return model(rank, like);
                   }));
    spans = std::make_shared<const SpanColumns>(std::move(columns));
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
  std::int64_t entries = 0;
  const std::int64_t entries_max = (per_byte * database_.size() + allowed_anyway) / entry_size;
  TESSERA_TRY(for_each_chunk(chunks, [&](const ChunkHeader& header, Blob data) -> Status {
    entries += std::clamp<std::int64_t>(header.count, 0, chunk_count_max);
    if (header.stream == all_streams && entries > entries_max) {
      return {Code::corrupt, fmt::format("The trace is damaged: rank {} has {} spans, more than "
                                         "any recording of that size.",
                                         rank, entries)};
    }
    return append(header, data, range, lanes);
  }));
  std::erase_if(lanes, [](const Lane& lane) { return lane.op.empty(); });
  std::sort(lanes.begin(), lanes.end(),
            [](const Lane& a, const Lane& b) { return a.stream < b.stream; });
  return lanes;
}

}  // namespace tessera::storage
