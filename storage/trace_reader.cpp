// SPDX-License-Identifier: Apache-2.0
#include "tessera/storage/trace_reader.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "storage/check_schema.h"
#include "storage/chunk.h"
#include "storage/content_hash.h"
#include "storage/open_trace.h"
#include "storage/read_chunks.h"
#include "storage/read_rows.h"
#include "storage/read_samples.h"
#include "storage/read_spans.h"
#include "storage/sample_chunk.h"
#include "storage/schema.h"
#include "tessera/assert.h"

namespace tessera::storage {
namespace {

Status in_file(const std::string& path, const Status& status) {
  if (status.ok()) return status;
  return {status.code(), fmt::format("\"{}\": {}", path, status.message())};
}

Result<std::uint32_t> version_of(const Database& database) {
  TESSERA_ASSIGN(Statement row, database.prepare("PRAGMA user_version"));
  TESSERA_TRY(row.next().status());
  return static_cast<std::uint32_t>(row.integer(0));
}

constexpr std::size_t damages_max = 1000;

/// Appends a sentence for each chunk that cannot be read. `decode`(header, data) -> Status.
template <class F>
Status find_damaged_chunks(const Database& database, const char* sql, F decode,
                           std::vector<std::string>& damages) {
  TESSERA_ASSIGN(Statement chunks, database.prepare(sql));
  while (damages.size() < damages_max) {
    TESSERA_ASSIGN(const bool row, chunks.next());
    if (!row) break;
    Result<ChunkHeader> header = read_chunk(chunks);
    const Status status = header.ok() ? decode(*header, chunks.blob(7)) : header.status();
    // Samples need the spans of their rank, whose damage was named already.
    const bool again = std::find(damages.begin(), damages.end(), status.message()) != damages.end();
    if (!status.ok() && !again) damages.push_back(status.message());
  }
  return {};
}

Status find_damaged_spans(const Database& database, std::vector<std::string>& damages) {
  const SpanReader reader(database);
  ClaimedSpans claimed(database.size());
  std::vector<Lane> lanes;
  const auto decode = [&](const ChunkHeader& header, Blob data) -> Status {
    TESSERA_TRY(claimed.add(header));
    lanes.clear();
    return reader.append(header, data, {header.t0, header.t1}, lanes);
  };
  return find_damaged_chunks(
      database, "SELECT rank, stream, seq, count, t0, t1, checksum, data FROM span_chunk", decode,
      damages);
}

Status find_damaged_samples(const Database& database, std::uint32_t version,
                            std::vector<std::string>& damages) {
  const SpanReader spans(database);
  SampleReader reader(database, spans, version);
  MemorySeries series;
  const auto decode = [&](const ChunkHeader& header, Blob data) {
    series = {};
    return reader.append(header, data, series);
  };
  return find_damaged_chunks(
      database,
      "SELECT rank, -1, seq, count, t0, t1, checksum, data FROM memory_chunk ORDER BY rank, seq",
      decode, damages);
}

}  // namespace

struct TraceReader::State {
  std::string path;
  Database database;
  std::unique_ptr<SpanReader> spans = {};
  TraceInfo info;
  std::uint32_t version = trace_format_version;  // of the file
  std::once_flag density_known = {};
  Status density = {};
  std::once_flag steps_known = {};
  Status steps_density = {};

  /// Whether unpacking chunks is harmless; found out before the first is.
  Status may_unpack() {
    std::call_once(density_known, [this] { density = check_chunk_density(database); });
    return density;
  }
  Status may_unpack_steps() {
    std::call_once(steps_known, [this] { steps_density = check_step_density(database); });
    return steps_density;
  }
  Status compare_hash() const {
    if (info.unfinished) return {};
    TESSERA_ASSIGN(const std::string hash, content_hash_of(database));
    if (hash == info.content_hash) return {};
    return {Code::corrupt,
            fmt::format("Its tables are damaged: they have the content hash {}, recorded was {}.",
                        hash, info.content_hash)};
  }

  template <class T>
  Result<T> named(Result<T> result) const {
    if (!result.ok()) return in_file(path, result.status());
    return result;
  }
};

TraceReader::TraceReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(const std::string& path) {
  TESSERA_ASSIGN(Database database, open_trace(path));
  TESSERA_TRY(in_file(path, check_schema(database)));
  TESSERA_ASSIGN(const std::uint32_t version, version_of(database));
  Result<TraceInfo> info = read_info(database);
  if (!info.ok()) return in_file(path, info.status());
  auto state = std::make_unique<State>();
  state->path = path;
  state->database = std::move(database);
  state->spans = std::make_unique<SpanReader>(state->database);
  state->info = std::move(info).value();
  state->version = version;
  return TraceReader(std::move(state));
}

const TraceInfo& TraceReader::info() const { return state_->info; }

Result<std::vector<OpRow>> TraceReader::ops() const {
  return state_->named(read_ops(state_->database, state_->info));
}

Result<std::vector<OpRow>> TraceReader::ops(std::int32_t from, std::int32_t to) const {
  return state_->named(read_ops(state_->database, state_->info, from, to));
}

Result<std::vector<OpRow>> TraceReader::first_ops(std::int32_t from, std::int32_t most) const {
  return state_->named(read_first_ops(state_->database, state_->info, from, most));
}

Result<std::vector<OpSort>> TraceReader::op_sorts(std::int32_t from, std::int32_t to) const {
  return state_->named(read_op_sorts(state_->database, from, to));
}

Result<std::pair<std::int32_t, std::int32_t>> TraceReader::op_range() const {
  return state_->named(read_op_range(state_->database));
}

Result<std::vector<OpRow>> TraceReader::collectives() const {
  return state_->named(read_collectives(state_->database, state_->info));
}

Result<std::vector<BufferRow>> TraceReader::buffers() const {
  return state_->named(read_buffers(state_->database));
}

Result<std::vector<Lane>> TraceReader::lanes(Rank rank, Time begin, Time end,
                                             std::optional<std::int32_t> stream) const {
  TESSERA_TRY(in_file(state_->path, state_->may_unpack()));
  return state_->named(state_->spans->read(rank, {begin, end, stream}));
}

Result<MemorySeries> TraceReader::memory(Rank rank) const {
  TESSERA_TRY(in_file(state_->path, state_->may_unpack()));
  return state_->named(SampleReader(state_->database, *state_->spans, state_->version).read(rank));
}

Result<MemorySeries> TraceReader::memory(Rank rank, Time begin, Time end) const {
  TESSERA_TRY(in_file(state_->path, state_->may_unpack()));
  SampleReader samples(state_->database, *state_->spans, state_->version);
  return state_->named(samples.read(rank, begin, end));
}

Result<std::vector<HeldBuffer>> TraceReader::held_before(Rank rank, Time time) const {
  TESSERA_TRY(in_file(state_->path, state_->may_unpack()));
  SampleReader samples(state_->database, *state_->spans, state_->version);
  return state_->named(samples.held_before(rank, time));
}

namespace {

Result<std::int64_t> sum_of_counts(const Database& database, const char* sql) {
  TESSERA_ASSIGN(Statement counts, database.prepare(sql));
  constexpr std::int64_t chunk_max = std::max(span_count_max, sample_count_max);
  std::int64_t sum = 0;
  for (;;) {
    TESSERA_ASSIGN(const bool row, counts.next());
    if (!row) return sum;
    sum += std::clamp<std::int64_t>(counts.integer(0), 0, chunk_max);
  }
}

}  // namespace

Result<RecordedSize> TraceReader::recorded_size() const {
  RecordedSize size;
  TESSERA_ASSIGN(size.spans,
                 state_->named(sum_of_counts(state_->database, "SELECT count FROM span_chunk")));
  TESSERA_ASSIGN(size.samples,
                 state_->named(sum_of_counts(state_->database, "SELECT count FROM memory_chunk")));
  return size;
}

Result<std::vector<SpanStretch>> TraceReader::span_stretches(Rank rank) const {
  return state_->named(state_->spans->stretches(rank));
}

Result<std::vector<Lane>> TraceReader::lanes(Rank rank, const SpanStretch& stretch) const {
  TESSERA_TRY(in_file(state_->path, state_->may_unpack()));
  return state_->named(state_->spans->read_stretch(rank, stretch));
}

Result<std::vector<std::int64_t>> TraceReader::sample_chunks(Rank rank) const {
  SampleReader samples(state_->database, *state_->spans, state_->version);
  return state_->named(samples.chunks(rank));
}

Result<MemorySeries> TraceReader::chunk_memory(Rank rank, std::int64_t seq) const {
  TESSERA_TRY(in_file(state_->path, state_->may_unpack()));
  SampleReader samples(state_->database, *state_->spans, state_->version);
  return state_->named(samples.read_chunk(rank, seq));
}

std::int64_t TraceReader::chunks_read() const { return state_->spans->unpacked(); }

Result<RankSteps> TraceReader::rank_steps(std::int32_t from, std::optional<std::int32_t> to) const {
  const std::int32_t end = to.value_or(state_->info.steps);
  TESSERA_ASSERT(0 <= from && from <= end && end <= state_->info.steps, "steps of the trace");
  TESSERA_TRY(in_file(state_->path, state_->may_unpack_steps()));
  return state_->named(read_rank_steps(state_->database, state_->info.run.ranks, from, end));
}

Result<std::optional<StepSummary>> TraceReader::step_summary() const {
  const TraceInfo& info = state_->info;
  return state_->named(read_step_summary(state_->database, info.run.ranks, info.steps));
}

Result<std::vector<PeakMemory>> TraceReader::peak_memory() const {
  return state_->named(read_peak_memory(state_->database, state_->info));
}

Result<std::vector<KernelRow>> TraceReader::kernels() const {
  return state_->named(read_kernels(state_->database, state_->info));
}

Result<std::vector<KernelRow>> TraceReader::kernels_after(std::int32_t op, Rank rank,
                                                          std::int32_t most) const {
  return state_->named(read_kernels_after(state_->database, state_->info, op, rank, most));
}

Result<std::vector<MemoryShortageRow>> TraceReader::memory_shortages() const {
  return state_->named(read_memory_shortages(state_->database, state_->info));
}

Result<std::vector<DiagnosticRow>> TraceReader::diagnostics() const {
  return state_->named(read_diagnostics(state_->database, state_->info));
}

namespace {

Result<std::vector<std::int32_t>> ids_of(Statement& rows) {
  std::vector<std::int32_t> ops;
  for (;;) {
    TESSERA_ASSIGN(const bool row, rows.next());
    if (!row) return ops;
    ops.push_back(rows.int32(0));
  }
}

}  // namespace

Result<OpWaits> TraceReader::waits(std::int32_t from, std::int64_t to) const {
  TESSERA_ASSIGN(Statement rows, state_->named(state_->database.prepare(
                                     "SELECT op, after FROM op_after WHERE op >= "
                                     "? AND op < ? ORDER BY op, after")));
  rows.bind(from, to);
  OpWaits waits;
  for (;;) {
    TESSERA_ASSIGN(const bool row, state_->named(rows.next()));
    if (!row) return waits;
    waits.op.push_back(rows.int32(0));
    waits.after.push_back(rows.int32(1));
  }
}

Result<std::vector<std::int32_t>> TraceReader::waiting_for(std::int32_t op,
                                                           std::int32_t most) const {
  constexpr std::int64_t near = 65536;  // there is no index: who waits is issued soon after
  TESSERA_ASSIGN(Statement rows,
                 state_->named(state_->database.prepare(
                     "SELECT op FROM op_after WHERE op > ? AND op <= ? AND after = ?"
                     " ORDER BY op LIMIT ?")));
  rows.bind(op, std::int64_t{op} + near, op, most);
  return state_->named(ids_of(rows));
}

Status TraceReader::verify_tables() const { return in_file(state_->path, state_->compare_hash()); }

Result<std::vector<std::string>> TraceReader::find_damage() const {
  const Database& database = state_->database;
  const TraceInfo& info = state_->info;
  std::vector<std::string> damages;
  TESSERA_TRY(in_file(state_->path, find_damaged_spans(database, damages)));
  TESSERA_TRY(in_file(state_->path, find_damaged_samples(database, state_->version, damages)));
  const Status may = state_->may_unpack_steps();
  const Status steps =
      may.ok() ? read_rank_steps(database, info.run.ranks, 0, info.steps).status() : may;
  for (const Status& status :
       {state_->may_unpack(), read_ops(database, info).status(), read_buffers(database).status(),
        steps, read_step_summary(database, info.run.ranks, info.steps).status(),
        read_peak_memory(database, info).status(), read_diagnostics(database, info).status(),
        read_memory_shortages(database, info).status(), read_kernels(database, info).status(),
        state_->compare_hash()}) {
    if (!status.ok()) damages.push_back(status.message());
  }
  return damages;
}

Status TraceReader::verify() const {
  TESSERA_ASSIGN(const std::vector<std::string> damages, find_damage());
  if (damages.empty()) return {};
  return in_file(state_->path, {Code::corrupt, damages.front()});
}

}  // namespace tessera::storage
