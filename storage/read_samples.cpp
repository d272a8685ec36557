// SPDX-License-Identifier: Apache-2.0
#include "storage/read_samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "storage/read_chunks.h"
#include "storage/sample_decoder.h"

namespace tessera::storage {
namespace {

// Samples of a rank in memory take so many bytes for each of the file at most, and some anyway:
// what ranks share counts for each who shares it, but operations, to which samples belong, are in
// the file.
constexpr std::int64_t sample_size = 37, expansion_max = 16, expansion_anyway = 16 << 20;

constexpr const char* samples_sql =
    "SELECT rank, -1, seq, count, t0, t1, checksum, data FROM memory_chunk WHERE rank = ?"
    " AND seq BETWEEN ? AND ? ORDER BY seq";
constexpr const char* between_sql =
    "SELECT rank, -1, seq, count, t0, t1, checksum, data FROM memory_chunk WHERE rank = ?"
    " AND t0 < ? AND t1 >= ? ORDER BY seq";
constexpr const char* before_sql =
    "SELECT rank, -1, seq, count, t0, t1, checksum, data FROM memory_chunk WHERE rank = ?"
    " AND t0 < ? ORDER BY seq";
constexpr const char* reach_sql =
    "SELECT min(t0), max(t1) FROM memory_chunk WHERE rank = ? AND t0 < ? AND t1 >= ?";

constexpr Time first_time = std::numeric_limits<Time>::min();
constexpr Time last_time = std::numeric_limits<Time>::max();

Time just_before(Time time) { return time == first_time ? time : time - 1; }
Time just_after(Time time) { return time == last_time ? time : time + 1; }

/// What is at the times [begin, end) of an ascending series.
void cut(Time begin, Time end, MemorySeries& series) {
  const auto at = [&](Time time) {
    return std::lower_bound(series.time.begin(), series.time.end(), time) - series.time.begin();
  };
  const auto from = at(begin), to = at(end);
  const auto keep = [&](auto& column) {
    column.erase(column.begin() + to, column.end());
    column.erase(column.begin(), column.begin() + from);
  };
  keep(series.time);
  keep(series.buffer);
  keep(series.memory_class);
  keep(series.delta);
  keep(series.allocated);
  keep(series.reserved);
}

}  // namespace

/// Begins and ends of the operations of a rank, ascending.
struct SampleReader::Times {
  struct Span {
    std::int32_t op;
    Time begin, end;
  };
  Rank rank = -1;
  bool all = false;  // of the rank
  std::vector<Span> spans;
  std::size_t last = 0;  // samples come in about the order of operations

  std::optional<Time> find(Edge edge) {
    if (edge < 0 || edge / 2 > std::numeric_limits<std::int32_t>::max()) return {};
    const auto op = static_cast<std::int32_t>(edge / 2);
    constexpr std::size_t near = 64;
    const auto before = [](const Span& span, std::int32_t wanted) { return span.op < wanted; };
    auto from = spans.begin();
    const std::size_t low = last > near ? last - near : 0;
    const std::size_t high = std::min(spans.size(), last + near);
    auto to = spans.end();
    if (low < high && spans[low].op <= op && spans[high - 1].op >= op) {
      to = from + static_cast<std::ptrdiff_t>(high);
      from += static_cast<std::ptrdiff_t>(low);
    }
    const auto found = std::lower_bound(from, to, op, before);
    if (found == to || found->op != op) return {};
    last = static_cast<std::size_t>(found - spans.begin());
    return edge % 2 == 0 ? found->begin : found->end;
  }
};

SampleReader::SampleReader(const Database& database, const SpanReader& spans, std::uint32_t version)
    : database_(database), spans_(spans), version_(version), times_(std::make_unique<Times>()) {}
SampleReader::~SampleReader() = default;

Status SampleReader::load_times(Rank rank) {
  if (times_->rank == rank) return {};
  TESSERA_TRY(load_times(rank, first_time, last_time));
  times_->all = true;
  return {};
}

Status SampleReader::load_times(Rank rank, Time begin, Time end) {
  *times_ = {};
  TESSERA_ASSIGN(const std::vector<Lane> lanes, spans_.read(rank, {begin, end, {}}));
  for (const Lane& lane : lanes) {
    for (std::size_t i = 0; i < lane.op.size(); ++i) {
      times_->spans.push_back({lane.op[i], lane.begin[i], lane.end[i]});
    }
  }
  const auto before = [](const Times::Span& a, const Times::Span& b) { return a.op < b.op; };
  if (!std::is_sorted(times_->spans.begin(), times_->spans.end(), before)) {
    std::stable_sort(times_->spans.begin(), times_->spans.end(), before);
  }
  times_->rank = rank;
  return {};
}

Status SampleReader::append(const ChunkHeader& header, Blob data, MemorySeries& series) {
  if (std::exchange(counted_, header.rank) != header.rank) entries_ = 0;
  entries_ += std::clamp<std::int64_t>(header.count, 0, sample_count_max);
  TESSERA_TRY(version_ < 2 ? decode_samples(header, data, series)
                           : append_shared(header, data, series));
  return check_claim(header.rank);
}

Status SampleReader::check_claim(Rank rank) const {
  if (entries_ * sample_size <= expansion_max * database_.size() + expansion_anyway) return {};
  return {
      Code::corrupt,
      fmt::format("The trace is damaged: memory_chunk has {} entries of rank {} in a file of {} "
                  "bytes, more than any recording.",
                  entries_, rank, database_.size())};
}

Result<std::vector<std::int64_t>> SampleReader::chunks(Rank rank) {
  TESSERA_ASSIGN(Statement rows, database_.prepare("SELECT seq, count FROM memory_chunk"
                                                   " WHERE rank = ? ORDER BY seq"));
  rows.bind(rank);
  std::vector<std::int64_t> numbers;
  entries_ = 0;
  for (;;) {
    TESSERA_ASSIGN(const bool row, rows.next());
    if (!row) return numbers;
    numbers.push_back(rows.integer(0));
    entries_ += std::clamp<std::int64_t>(rows.integer(1), 0, sample_count_max);
    TESSERA_TRY(check_claim(rank));
  }
}

Result<MemorySeries> SampleReader::read_chunk(Rank rank, std::int64_t seq) {
  TESSERA_ASSIGN(Statement rows, database_.prepare(samples_sql));
  rows.bind(rank, seq, seq);
  MemorySeries series;
  TESSERA_TRY(for_each_chunk(rows, [&](const ChunkHeader& header, Blob data) {
    return append_near(header, data, series);
  }));
  series.rank = rank;
  return series;
}

SampleContext SampleReader::context() {
  SampleContext context;
  context.time_of = [this](Edge edge) { return times_->find(edge); };
  context.data_of = [this](Rank rank,
                           const ChunkHeader& like) -> Result<std::vector<std::uint8_t>> {
    TESSERA_ASSIGN(Statement chunk, database_.prepare(samples_sql));
    chunk.bind(rank, like.seq, like.seq);
    std::vector<std::uint8_t> found;
    TESSERA_TRY(for_each_chunk(chunk, [&](const ChunkHeader& other, Blob bytes) {
      if (other.count == like.count) found.assign(bytes.begin(), bytes.end());
      return Status();
    }));
    return found;
  };
  return context;
}

Status SampleReader::append_shared(const ChunkHeader& header, Blob data, MemorySeries& series) {
  spans_.count_chunk();
  TESSERA_TRY(load_times(header.rank));
  return decode_shared_samples(header, data, context(), series);
}

Result<MemorySeries> SampleReader::read(Rank rank) {
  TESSERA_ASSIGN(Statement chunks, database_.prepare(samples_sql));
  chunks.bind(rank, 0, std::numeric_limits<std::int64_t>::max());
  MemorySeries series;
  series.rank = rank;
  counted_ = -1;
  TESSERA_TRY(for_each_chunk(
      chunks, [&](const ChunkHeader& header, Blob data) { return append(header, data, series); }));
  return series;
}

// Of one chunk; what chunks have in common is added up once.
Result<std::vector<HeldBuffer>> SampleReader::changes(const ChunkHeader& header, Blob data) {
  constexpr std::size_t sums_kept = 256;
  if (version_ < 2) {
    MemorySeries series;
    TESSERA_TRY(decode_samples(header, data, series));
    return held_by(series);
  }
  TESSERA_ASSIGN(const ChangesOf like, changes_of(header, data));
  if (like.rank == header.rank && like.seq == header.seq) {
    return sum_shared_samples(header, data, context());
  }
  const std::tuple key(like.rank, like.seq, header.count);
  const auto known = shared_sums_.find(key);
  if (known != shared_sums_.end()) return known->second;
  TESSERA_ASSIGN(std::vector<HeldBuffer> sums, sum_shared_samples(header, data, context()));
  if (shared_sums_.size() >= sums_kept) shared_sums_.clear();
  return shared_sums_[key] = std::move(sums);
}

Result<std::vector<HeldBuffer>> SampleReader::held_before(Rank rank, Time time) {
  TESSERA_ASSIGN(Statement chunks, database_.prepare(before_sql));
  chunks.bind(rank, time);
  std::vector<HeldBuffer> held;
  const auto add = [&](const ChunkHeader& header, Blob data) -> Status {
    if (header.t1 < time) {
      TESSERA_ASSIGN(const std::vector<HeldBuffer> more, changes(header, data));
      add_held(more, held);
      return {};
    }
    MemorySeries series;
    TESSERA_TRY(append_near(header, data, series));
    cut(first_time, time, series);
    add_held(held_by(series), held);
    return {};
  };
  TESSERA_TRY(for_each_chunk(chunks, add));
  return held;
}

// With the times of spans around the chunk, if these are enough.
Status SampleReader::append_near(const ChunkHeader& header, Blob data, MemorySeries& series) {
  counted_ = -1;
  if (version_ >= 2)
    TESSERA_TRY(load_times(header.rank, just_before(header.t0), just_after(header.t1)));
  const Status status = append(header, data, series);
  if (status.ok() || version_ < 2) return status;
  // Samples may be about operations of other times.
  *times_ = {};
  series = {};
  return append(header, data, series);
}

Status SampleReader::append_all(Rank rank, Time begin, Time end, MemorySeries& series) {
  TESSERA_ASSIGN(Statement chunks, database_.prepare(between_sql));
  chunks.bind(rank, end, begin);
  series = {};
  series.rank = rank;
  counted_ = -1;
  return for_each_chunk(
      chunks, [&](const ChunkHeader& header, Blob data) { return append(header, data, series); });
}

Result<MemorySeries> SampleReader::read(Rank rank, Time begin, Time end) {
  MemorySeries series;
  TESSERA_ASSIGN(Statement reach, database_.prepare(reach_sql));
  reach.bind(rank, end, begin);
  TESSERA_ASSIGN(const bool any, reach.next());
  if (!any || reach.type(0) == SQLITE_NULL) {
    series.rank = rank;
    return series;
  }
  const Time first = reach.integer(0), last = reach.integer(1);
  if (version_ >= 2) {
    // A span that ends with the first sample counts, too.
    TESSERA_TRY(load_times(rank, just_before(first), just_after(last)));
  }
  Status status = append_all(rank, begin, end, series);
  if (!status.ok() && version_ >= 2) {
    // Samples may be about operations of other times.
    *times_ = {};
    status = append_all(rank, begin, end, series);
  }
  TESSERA_TRY(std::move(status));
  cut(begin, end, series);
  return series;
}

}  // namespace tessera::storage
