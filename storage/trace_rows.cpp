// SPDX-License-Identifier: Apache-2.0
#include "storage/trace_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/content_hash.h"
#include "storage/schema.h"

namespace tessera::storage {
namespace {

/// More ranks than any machine has; a wrong number should not fill the disk.
constexpr std::int32_t ranks_max = 1 << 24;

template <class E>
std::int32_t number(E enumerator) {
  return static_cast<std::int32_t>(enumerator);
}

Status wrong(std::string message) { return {Code::invalid_argument, std::move(message)}; }

}  // namespace

struct TraceRows::Statements {
  Statement meta, run, rank, stream, communicator, unit, string, op, op_after, op_kernel, buffer,
      rank_step, peak_memory, peak_memory_class, diagnostic, span_chunk, memory_chunk;

  static Result<std::unique_ptr<Statements>> prepare(const Database& database);
};

Result<std::unique_ptr<TraceRows::Statements>> TraceRows::Statements::prepare(
    const Database& database) {
  const auto insert = [&](std::string_view into, int values) {
    std::string places = "?";
    for (int i = 1; i < values; ++i) places += ", ?";
    return database.prepare(fmt::format("INSERT INTO {} VALUES ({})", into, places));
  };
  TESSERA_ASSIGN(Statement meta, insert("meta", 2));
  TESSERA_ASSIGN(Statement run, insert("run", 13));
  TESSERA_ASSIGN(Statement rank, insert("rank", 3));
  TESSERA_ASSIGN(Statement stream, insert("stream", 3));
  TESSERA_ASSIGN(Statement communicator, insert("communicator", 4));
  TESSERA_ASSIGN(Statement unit, insert("unit", 5));
  TESSERA_ASSIGN(Statement string, insert("string", 2));
  TESSERA_ASSIGN(Statement op, insert("op", 15));
  TESSERA_ASSIGN(Statement op_after,
                 database.prepare("INSERT OR IGNORE INTO op_after VALUES (?, ?)"));
  TESSERA_ASSIGN(Statement op_kernel, insert("op_kernel", 3));
  TESSERA_ASSIGN(Statement buffer, insert("buffer", 5));
  TESSERA_ASSIGN(Statement rank_step, insert("rank_step", 11));
  TESSERA_ASSIGN(Statement peak_memory, insert("peak_memory", 6));
  TESSERA_ASSIGN(Statement peak_memory_class, insert("peak_memory_class", 3));
  TESSERA_ASSIGN(Statement diagnostic,
                 database.prepare("INSERT INTO diagnostic VALUES (NULL, ?, ?, ?, ?, ?, ?)"));
  TESSERA_ASSIGN(Statement span_chunk, insert("span_chunk", 8));
  TESSERA_ASSIGN(Statement memory_chunk, insert("memory_chunk", 7));
  return std::make_unique<Statements>(Statements{
      std::move(meta), std::move(run), std::move(rank), std::move(stream), std::move(communicator),
      std::move(unit), std::move(string), std::move(op), std::move(op_after), std::move(op_kernel),
      std::move(buffer), std::move(rank_step), std::move(peak_memory), std::move(peak_memory_class),
      std::move(diagnostic), std::move(span_chunk), std::move(memory_chunk)});
}

TraceRows::TraceRows(Database& database) : database_(database) {}

TraceRows::~TraceRows() = default;

Result<std::unique_ptr<TraceRows>> TraceRows::create(Database& database) {
  // The schema is committed by itself, so that a recording under way is recognised as one.
  TESSERA_TRY(database.run("BEGIN"));
  TESSERA_TRY(database.run(schema_sql));
  TESSERA_TRY(database.run("COMMIT; BEGIN"));
  std::unique_ptr<TraceRows> rows(new TraceRows(database));
  TESSERA_ASSIGN(rows->statements_, Statements::prepare(database));
  rows->intern("");
  if (!rows->status_.ok()) return rows->status_;
  return rows;
}

void TraceRows::keep(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

bool TraceRows::ready() {
  if (ranks_ == 0) keep(wrong("A recording starts with TraceSink::begin, which was not called."));
  return status_.ok();
}

bool TraceRows::has_rank(Rank rank, const char* what) {
  if (rank >= 0 && rank < ranks_) return true;
  keep(wrong(fmt::format("{} of rank {} in a run of {} ranks.", what, rank, ranks_)));
  return false;
}

std::int32_t TraceRows::intern(std::string_view text) {
  const auto found = strings_.find(text);
  if (found != strings_.end()) return found->second;
  const auto id = static_cast<std::int32_t>(strings_.size());
  strings_.emplace(text, id);
  keep(statements_->string.run(id, text));
  return id;
}

void TraceRows::begin(const TraceRun& run) {
  if (!status_.ok()) return;
  if (ranks_ != 0) return keep(wrong("TraceSink::begin was called twice."));
  if (run.ranks < 1 || run.ranks > ranks_max || run.ranks_per_node < 1) {
    return keep(
        wrong(fmt::format("A run of {} ranks with {} on a node cannot be recorded; both "
                          "are at least 1, and at most {} ranks.",
                          run.ranks, run.ranks_per_node, ranks_max)));
  }
  ranks_ = run.ranks;
  lanes_ = std::make_unique<LaneBuffers<SpanEntry>>(
      ranks_, [this](ChunkHeader& header, auto spans) { write_spans(header, spans); });
  samples_ = std::make_unique<LaneBuffers<MemorySample>>(
      ranks_, [this](ChunkHeader& header, auto samples) { write_samples(header, samples); });
  Statements& s = *statements_;
  keep(s.meta.run("seed", fmt::format("{}", run.seed)));
  keep(s.meta.run("options", run.options));
  if (!run.sources.empty()) keep(s.meta.run("sources", run.sources));
  keep(s.meta.run("version", run.version));
  keep(s.run.run(run.name, run.model, run.scheme, run.cluster, run.backend, run.ranks,
                 run.ranks_per_node, run.parameters, run.tokens_per_step, run.model_flops_per_step,
                 run.peak_flops_per_rank, run.peak_name, run.memory_per_rank.value));
  write_ranks(run);
}

void TraceRows::write_ranks(const TraceRun& run) {
  std::vector<bool> recorded(static_cast<std::size_t>(ranks_));
  for (const Rank rank : run.recorded_ranks) {
    if (!has_rank(rank, "A recording")) return;
    recorded[static_cast<std::size_t>(rank)] = true;
  }
  for (Rank rank = 0; rank < ranks_ && status_.ok(); ++rank) {
    keep(statements_->rank.run(rank, rank / run.ranks_per_node,
                               recorded[static_cast<std::size_t>(rank)] ? 1 : 0));
  }
}

void TraceRows::stream(const TraceStream& stream) {
  if (ready()) keep(statements_->stream.run(stream.id, stream.name, number(stream.role)));
}

void TraceRows::communicator(const TraceCommunicator& c) {
  if (ready()) keep(statements_->communicator.run(c.id, c.name, c.group_size, c.group_count));
}

void TraceRows::unit(const TraceUnit& unit) {
  if (!ready()) return;
  keep(statements_->unit.run(unit.id, unit.name, unit.parameters, unit.numel.value,
                             unit.padding.value));
}

void TraceRows::op(const TraceOp& op) {
  if (!ready()) return;
  if (!op_streams_.empty() && op_streams_.back().first >= op.id) {
    return keep(wrong(
        fmt::format("Op {} came after op {}; ids must ascend.", op.id, op_streams_.back().first)));
  }
  op_streams_.emplace_back(op.id, op.stream);
  // One by one: as arguments of one call, compilers would number them in orders of their own.
  const std::int32_t unit = intern(op.unit);
  const std::int32_t module = intern(op.module);
  const std::int32_t label = intern(op.label);
  const std::int32_t algorithm = intern(op.algorithm);
  keep(statements_->op.run(op.id, number(op.kind), op.stream, op.communicator, op.step,
                           op.micro_batch, number(op.phase), number(op.reason), unit, module, label,
                           op.bytes.value, number(op.dtype), op.flops, algorithm));
  for (const std::int32_t after : op.after) keep(statements_->op_after.run(op.id, after));
}

void TraceRows::spans(const SpanBatch& spans) {
  if (!ready()) return;
  const auto found = std::lower_bound(op_streams_.begin(), op_streams_.end(), spans.op,
                                      [](const auto& a, std::int32_t id) { return a.first < id; });
  if (found == op_streams_.end() || found->first != spans.op) {
    return keep(wrong(fmt::format("Spans of op {} came before the op.", spans.op)));
  }
  const std::int32_t stream = found->second;
  std::vector<std::int32_t>& lanes = lanes_->lanes_of(stream);
  for (std::size_t i = 0; i < spans.ranks.size(); ++i) {
    if (!has_rank(spans.ranks[i], "A span")) return;
    lanes_->add(lanes, stream, spans.ranks[i],
                {spans.op, spans.begin[i], spans.ready[i], spans.end[i]});
  }
}

void TraceRows::buffer(const TraceBuffer& buffer) {
  if (!ready()) return;
  const std::int32_t name = intern(buffer.name);
  const std::int32_t unit = intern(buffer.unit);
  keep(statements_->buffer.run(buffer.id, name, unit, number(buffer.memory_class),
                               buffer.bytes.value));
}

void TraceRows::memory(std::span<const MemorySample> samples) {
  if (!ready()) return;
  std::vector<std::int32_t>& lanes = samples_->lanes_of(-1);
  for (const MemorySample& sample : samples) {
    if (!has_rank(sample.rank, "A memory sample")) return;
    samples_->add(lanes, -1, sample.rank, sample);
  }
}

void TraceRows::peak_memory(const PeakMemory& peak) {
  if (!ready()) return;
  const std::int64_t id = ++peaks_;
  keep(statements_->peak_memory.run(id, peak.step, peak.first_rank, peak.end_rank,
                                    peak.allocated.value, peak.reserved.value));
  for (std::size_t i = 0; i < peak.by_class.size(); ++i) {
    if (peak.by_class[i].value == 0) continue;
    keep(statements_->peak_memory_class.run(id, static_cast<std::int32_t>(i),
                                            peak.by_class[i].value));
  }
}

void TraceRows::rank_steps(const RankStepBatch& b) {
  if (!ready()) return;
  if (b.step != steps_) {
    return keep(wrong(fmt::format("Step {} came where step {} was expected; steps count from 0.",
                                  b.step, steps_)));
  }
  if (b.begin.size() != static_cast<std::size_t>(ranks_)) {
    return keep(wrong(
        fmt::format("Step {} has {} ranks in a run of {} ranks.", b.step, b.begin.size(), ranks_)));
  }
  ++steps_;
  for (std::size_t i = 0; i < b.begin.size() && status_.ok(); ++i) {
    end_ = b.step == 0 && i == 0 ? b.end[i] : std::max(end_, b.end[i]);
    keep(statements_->rank_step.run(b.step, static_cast<std::int32_t>(i), b.begin[i], b.end[i],
                                    b.compute[i], b.communication[i], b.exposed[i], b.blocking[i],
                                    b.wait[i], b.peak_allocated[i].value,
                                    b.peak_reserved[i].value));
  }
}

void TraceRows::kernel(const TraceKernel& kernel) {
  if (!ready() || !has_rank(kernel.rank, "A kernel")) return;
  keep(statements_->op_kernel.run(kernel.op, kernel.rank, kernel.time));
}

void TraceRows::diagnostic(const TraceDiagnostic& d) {
  if (!ready()) return;
  keep(statements_->diagnostic.run(number(d.severity), d.code, d.rank, d.op, d.time, d.message));
}

void TraceRows::write_spans(ChunkHeader& header, std::span<const SpanEntry> spans) {
  encode_spans(spans, header, data_);
  keep(statements_->span_chunk.run(header.rank, header.stream, header.seq, header.count, header.t0,
                                   header.t1, chunk_checksum(header, data_), Blob(data_)));
}

void TraceRows::write_samples(ChunkHeader& header, std::span<const MemorySample> samples) {
  encode_samples(samples, header, data_);
  keep(statements_->memory_chunk.run(header.rank, header.seq, header.count, header.t0, header.t1,
                                     chunk_checksum(header, data_), Blob(data_)));
}

Status TraceRows::finish() {
  if (ready()) keep(commit());
  statements_.reset();
  return status_;
}

Status TraceRows::commit() {
  lanes_->flush_all();
  samples_->flush_all();
  TESSERA_TRY(Status(status_));
  TESSERA_TRY(statements_->meta.run("steps", fmt::format("{}", steps_)));
  TESSERA_TRY(statements_->meta.run("end", fmt::format("{}", end_)));
  TESSERA_ASSIGN(content_hash_, content_hash_of(database_));
  TESSERA_TRY(statements_->meta.run("content_hash", content_hash_));
  statements_.reset();
  return database_.run("COMMIT");
}

}  // namespace tessera::storage
