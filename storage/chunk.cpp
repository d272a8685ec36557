// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "storage/checksum.h"
#include "storage/encoding.h"
#include "tessera/assert.h"

namespace tessera::storage {
namespace {

/// Room for one decoded or not yet encoded column.
using Packed = std::array<std::int64_t, chunk_count_max>;

Status damaged(const ChunkHeader& header, std::string_view what) {
  return {Code::corrupt, fmt::format("{} is damaged: {}.", header.describe(), what)};
}

Status check_count(const ChunkHeader& header) {
  if (header.count >= 1 && header.count <= static_cast<std::int64_t>(chunk_count_max)) return {};
  return damaged(header, fmt::format("it claims {} entries", header.count));
}

/// Appends the column of value(i) for i < count.
template <class F>
void append(std::size_t count, Packed& column, std::vector<std::uint8_t>& data, F value) {
  for (std::size_t i = 0; i < count; ++i) column[i] = value(i);
  append_column(std::span(column).first(count), data);
}

/// Running sums, modulo 2^64.
void integrate(std::span<std::int64_t> column) {
  std::int64_t sum = 0;
  for (std::int64_t& value : column) value = sum = wrapping_sum(sum, value);
}

void resize(Lane& lane, std::size_t size) {
  lane.op.resize(size);
  for (std::vector<Time>* column : {&lane.begin, &lane.ready, &lane.end}) column->resize(size);
}

bool fits_int32(std::int64_t value) {
  return value >= std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max();
}

}  // namespace

std::string ChunkHeader::describe() const {
  if (stream == steps_stream) return fmt::format("rank_step chunk (step {}, rank {})", seq, rank);
  if (stream == all_streams) return fmt::format("span chunk (rank {}, seq {})", rank, seq);
  if (stream < 0) return fmt::format("memory chunk (rank {}, seq {})", rank, seq);
  return fmt::format("span chunk (rank {}, stream {}, seq {})", rank, stream, seq);
}

std::int64_t chunk_checksum(const ChunkHeader& header, std::span<const std::uint8_t> data) {
  Checksum checksum;
  checksum.add(std::int64_t{header.rank});
  checksum.add(std::int64_t{header.stream});
  for (const std::int64_t value : {header.seq, header.count, header.t0, header.t1}) {
    checksum.add(value);
  }
  checksum.add(data);
  return static_cast<std::int64_t>(checksum.value());
}

void encode_spans(std::span<const SpanEntry> spans, ChunkHeader& header,
                  std::vector<std::uint8_t>& data) {
  const std::size_t n = spans.size();
  TESSERA_ASSERT(n >= 1 && n <= chunk_count_max, "a chunk has entries, and room for so many");
  header.count = static_cast<std::int64_t>(n);
  header.t0 = spans.front().begin;
  header.t1 = spans.front().end;
  for (const SpanEntry& span : spans) {
    header.t0 = std::min(header.t0, span.begin);
    header.t1 = std::max(header.t1, span.end);
  }
  data.clear();
  Packed column;
  append(n, column, data, [&](std::size_t i) {
    return std::int64_t{spans[i].op} - (i > 0 ? std::int64_t{spans[i - 1].op} : 0);
  });
  append(n, column, data, [&](std::size_t i) {
    return wrapping_difference(spans[i].begin, i > 0 ? spans[i - 1].end : 0);
  });
  append(n, column, data,
         [&](std::size_t i) { return wrapping_difference(spans[i].ready, spans[i].begin); });
  append(n, column, data,
         [&](std::size_t i) { return wrapping_difference(spans[i].end, spans[i].begin); });
}

Status decode_spans(const ChunkHeader& header, std::span<const std::uint8_t> data, Time begin,
                    Time end, Lane& lane) {
  TESSERA_TRY(check_count(header));
  const auto n = static_cast<std::size_t>(header.count);
  Packed ops, gaps, waits, durations;
  ColumnReader reader(data);
  for (Packed* column : {&ops, &gaps, &waits, &durations}) {
    if (!reader.read(std::span(*column).first(n))) return damaged(header, "its data ends early");
  }
  if (!reader.at_end()) return damaged(header, "its data is too long");
  integrate(std::span(ops).first(n));
  std::size_t kept = lane.op.size();
  resize(lane, kept + n);
  Time now = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (ops[i] < 0 || !fits_int32(ops[i]))
      return damaged(header, fmt::format("op {} is impossible", ops[i]));
    const Time span_begin = wrapping_sum(now, gaps[i]);
    now = wrapping_sum(span_begin, durations[i]);
    if (span_begin >= end || (span_begin < begin && now <= begin)) continue;
    lane.op[kept] = static_cast<std::int32_t>(ops[i]);
    lane.begin[kept] = span_begin;
    lane.ready[kept] = wrapping_sum(span_begin, waits[i]);
    lane.end[kept++] = now;
  }
  resize(lane, kept);
  return {};
}

Status decode_samples(const ChunkHeader& header, std::span<const std::uint8_t> data,
                      MemorySeries& series) {
  TESSERA_TRY(check_count(header));
  const auto n = static_cast<std::size_t>(header.count);
  Packed times, buffers, classes, deltas, allocated, reserved;
  ColumnReader reader(data);
  for (Packed* column : {&times, &buffers, &classes, &deltas, &allocated, &reserved}) {
    if (!reader.read(std::span(*column).first(n))) return damaged(header, "its data ends early");
  }
  if (!reader.at_end()) return damaged(header, "its data is too long");
  integrate(std::span(times).first(n));
  integrate(std::span(buffers).first(n));
  integrate(std::span(reserved).first(n));
  std::int64_t counter = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (!fits_int32(buffers[i])) {
      return damaged(header, fmt::format("buffer {} is impossible", buffers[i]));
    }
    if (classes[i] < 0 || classes[i] >= memory_class_count) {
      return {Code::not_supported,
              fmt::format("{} has memory class {}, which this version does not know.",
                          header.describe(), classes[i])};
    }
    counter = wrapping_sum(wrapping_sum(counter, deltas[i]), allocated[i]);
    series.time.push_back(times[i]);
    series.buffer.push_back(static_cast<std::int32_t>(buffers[i]));
    series.memory_class.push_back(static_cast<MemoryClass>(classes[i]));
    series.delta.emplace_back(deltas[i]);
    series.allocated.emplace_back(counter);
    series.reserved.emplace_back(reserved[i]);
  }
  return {};
}

}  // namespace tessera::storage
