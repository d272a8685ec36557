// SPDX-License-Identifier: Apache-2.0
#include "storage/trace_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "storage/close_trace.h"
#include "storage/record_sql.h"
#include "storage/schema.h"
#include "storage/step_chunk.h"

namespace tessera::storage {
namespace {

/// More ranks than any machine has; a wrong number should not fill the disk.
constexpr std::int32_t ranks_max = 1 << 24;
/// Steps of fewer samples share a chunk, which takes about 50 bytes by itself.
constexpr std::size_t samples_per_cut = 4096;

Status wrong(std::string message) { return {Code::invalid_argument, std::move(message)}; }

}  // namespace

template <class Tables>
struct InsertsOf;
template <class... Records>
struct InsertsOf<std::tuple<Records...>> {
  using type = std::tuple<Insert<Records>...>;
};
using AllTables = decltype(std::tuple_cat(HashedTables(), OtherTables(), LaterTables()));

struct TraceRows::Statements {
  InsertsOf<AllTables>::type inserts;

  Status prepare(const Database& database) {
    Status status;
    const auto prepare_one = [&](auto& insert) {
      if (status.ok()) status = insert.prepare(database);
    };
    std::apply([&](auto&... insert) { (prepare_one(insert), ...); }, inserts);
    return status;
  }
};

template <class Record>
void TraceRows::write(const Record& record) {
  if (!status_.ok()) return;
  keep(std::get<Insert<Record>>(statements_->inserts).run(record, [this](std::string_view text) {
    return intern(text);
  }));
}

TraceRows::TraceRows(Database& database, bool scratch) : database_(database), scratch_(scratch) {}

TraceRows::~TraceRows() = default;

Result<std::unique_ptr<TraceRows>> TraceRows::create(Database& database, bool scratch) {
  TESSERA_TRY(database.run("BEGIN"));
  TESSERA_TRY(database.run(schema_sql));
  TESSERA_TRY(database.commit());  // by itself, so that the file is recognised for what it is
  TESSERA_TRY(database.run("BEGIN"));
  std::unique_ptr<TraceRows> rows(new TraceRows(database, scratch));
  rows->statements_ = std::make_unique<Statements>();
  TESSERA_TRY(rows->statements_->prepare(database));
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
  const auto [id, is_new] = strings_.add(text);
  if (is_new) write(StringRow{id, text});
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
  recorded_from_ = run.recorded_from;
  recorded_to_ = run.recorded_to;
  records_memory_ = run.records_memory;
  edges_ = std::make_unique<RecentEdges>(ranks_, run.recorded_ranks.size());
  lanes_ =
      std::make_unique<SpanLanes>(ranks_, span_count_max, records_memory_ ? edges_.get() : nullptr,
                                  [this](ChunkHeader& header, const SpanRun& spans,
                                         GivenChunk given) { write_spans(header, spans, given); });
  encoder_ = std::make_unique<SampleEncoder>(*edges_);
  cuts_ = std::make_unique<StepCuts>(ranks_);
  samples_ = std::make_unique<LaneBuffers<MemorySample>>(
      ranks_, sample_count_max, [this](ChunkHeader& header, const auto& samples, GivenChunk given) {
        write_samples(header, samples, given);
      });
  write_meta("seed", fmt::format("{}", run.seed));
  write_meta("options", run.options);
  if (!run.sources.empty()) write_meta("sources", run.sources);
  write_meta("version", run.version);
  if (!whole_run())
    write_meta("recorded_steps", fmt::format("{}-{}", run.recorded_from, run.recorded_to - 1));
  if (!records_memory_) write_meta("recorded_memory", "0");
  write(run);
  write_ranks(run);
}

void TraceRows::write_ranks(const TraceRun& run) {
  std::vector<bool> recorded(static_cast<std::size_t>(ranks_));
  for (const Rank rank : run.recorded_ranks) {
    if (!has_rank(rank, "A recording")) return;
    recorded[static_cast<std::size_t>(rank)] = true;
  }
  for (Rank rank = 0; rank < ranks_ && status_.ok(); ++rank) {
    write(
        RankRow{rank, rank / run.ranks_per_node, recorded[static_cast<std::size_t>(rank)] ? 1 : 0});
  }
}

void TraceRows::write_meta(std::string_view key, std::string_view value) {
  write(MetaRow{key, value});
}

void TraceRows::stream(const TraceStream& stream) {
  if (ready()) write(stream);
}

void TraceRows::communicator(const TraceCommunicator& communicator) {
  if (ready()) write(communicator);
}

void TraceRows::unit(const TraceUnit& unit) {
  if (ready()) write(unit);
}

void TraceRows::op(const TraceOp& op) {
  if (!ready()) return;
  if (!ops_.empty() && ops_.last_id() >= op.id) {
    return keep(
        wrong(fmt::format("Op {} came after op {}; ids must ascend.", op.id, ops_.last_id())));
  }
  const bool recorded = whole_run() || (op.step >= recorded_from_ && op.step < recorded_to_);
  ops_.add(op, recorded);
  if (!recorded) return;
  write(op);
  for (auto after = op.after.begin(); after != op.after.end(); ++after) {
    const bool again = std::find(op.after.begin(), after, *after) != after;
    const KnownOp* const other = whole_run() ? nullptr : ops_.find(*after);
    if (!again && (other == nullptr || other->recorded)) write(AfterRow{op.id, *after});
  }
}

void TraceRows::spans(const SpanBatch& spans) {
  if (!ready()) return;
  const KnownOp* const op = ops_.find(spans.op);
  if (op == nullptr) {
    return keep(wrong(fmt::format("Spans of op {} came before the op.", spans.op)));
  }
  if (!op->recorded) return;
  ops_.time(*op, spans);
  if (op->step > spans_step_) {
    spans_step_ = op->step;
    lanes_->cut_all(spans_per_cut);
  }
  const bool same = lanes_->same_ranks(spans.ranks);
  for (std::size_t i = 0; i < spans.ranks.size() && !same; ++i) {
    if (!has_rank(spans.ranks[i], "A span")) return;
  }
  lanes_->add(spans);
  if (!records_memory_ || (same && op->step <= begun_step_)) return;
  begun_step_ = op->step;
  for (std::size_t i = 0; i < spans.ranks.size(); ++i) {
    cuts_->begin(spans.ranks[i], op->step, spans.begin[i]);
  }
}

void TraceRows::buffer(const TraceBuffer& buffer) {
  if (ready()) write(buffer);
}

void TraceRows::memory(std::span<const MemorySample> samples) {
  if (!ready() || !records_memory_ || steps_ >= recorded_to_) return;
  lanes_->settle();  // samples lie at the edges of operations
  std::vector<std::int32_t>& lanes = samples_->lanes_of(-1);
  for (const MemorySample& sample : samples) {
    if (!has_rank(sample.rank, "A memory sample")) return;
    if (steps_ < recorded_from_) {
      held_.add(sample);
    } else {
      if (cuts_->before(sample)) samples_->cut(lanes, sample.rank, samples_per_cut);
      samples_->add(lanes, -1, sample.rank, sample);
    }
  }
}

/// What ranks hold when the first step that is recorded begins, as if they allocated it then.
void TraceRows::write_held() {
  lanes_->settle();
  std::vector<std::int32_t>& lanes = samples_->lanes_of(-1);
  for (const MemorySample& sample : held_.take()) samples_->add(lanes, -1, sample.rank, sample);
}

void TraceRows::peak_memory(const PeakMemory& peak) {
  if (!ready()) return;
  ++peaks_;
  write(peak);
  for (std::size_t i = 0; i < peak.by_class.size(); ++i) {
    if (peak.by_class[i].value == 0) continue;
    write(PeakClassRow{peaks_, static_cast<MemoryClass>(i), peak.by_class[i]});
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
  if (!sums_) sums_.emplace(ranks_);
  sums_->add(b);
  ++steps_;
  if (steps_ == recorded_from_) write_held();
  const Time latest = *std::max_element(b.end.begin(), b.end.end());
  end_ = b.step == 0 ? latest : std::max(end_, latest);
  // What is a little larger than fits into a page of the database takes one more by itself.
  const std::size_t most = b.begin.size() <= 256 ? 32 : chunk_count_max;
  for (std::size_t i = 0; i < b.begin.size(); i += most) {
    ChunkHeader h{static_cast<Rank>(i), steps_stream, b.step};
    h.count = static_cast<std::int64_t>(std::min(most, b.begin.size() - i));
    encode_steps(b, h, data_);
    write(RankStepChunkRow{h.seq, h.rank, h.count, h.t0, h.t1, chunk_checksum(h, data_), data_});
  }
}

void TraceRows::kernel(const TraceKernel& kernel) {
  if (!ready() || !has_rank(kernel.rank, "A kernel")) return;
  const KnownOp* const op = ops_.find(kernel.op);
  if (op == nullptr || op->recorded) write(kernel);
}

void TraceRows::diagnostic(const TraceDiagnostic& diagnostic) {
  if (ready()) write(diagnostic);
}

void TraceRows::memory_shortage(const TraceMemoryShortage& shortage) {
  if (!ready() || !has_rank(shortage.rank, "A memory shortage")) return;
  ++shortages_;
  write(shortage);
  for (const MemoryBlock& block : shortage.blocks) write(MemoryBlockRow{block, shortages_});
}

void TraceRows::remove_parts(const char* sql, const ChunkHeader& header, std::int64_t parts) {
  if (parts == 0 || !status_.ok()) return;
  Result<Statement> remove = database_.prepare(sql);
  if (!remove.ok()) return keep(remove.status());
  remove->bind(header.rank, header.seq, header.seq + parts);
  keep(remove->run());
}

void TraceRows::write_spans(ChunkHeader& h, const SpanRun& spans, GivenChunk given) {
  static_assert(all_streams == -3, "the number in the next line");
  remove_parts("DELETE FROM span_chunk WHERE rank = ?1 AND stream = -3 AND seq > ?2 AND seq <= ?3",
               h, given.parts);
  span_encoder_.encode(spans, given.complete, h, data_);
  write(
      SpanChunkRow{h.rank, h.stream, h.seq, h.count, h.t0, h.t1, chunk_checksum(h, data_), data_});
}

void TraceRows::write_samples(ChunkHeader& h, std::span<const MemorySample> samples,
                              GivenChunk given) {
  remove_parts("DELETE FROM memory_chunk WHERE rank = ?1 AND seq > ?2 AND seq <= ?3", h,
               given.parts);
  encoder_->encode(samples, given.complete, h, data_);
  write(MemoryChunkRow{h.rank, h.seq, h.count, h.t0, h.t1, chunk_checksum(h, data_), data_});
}

Status TraceRows::save() {
  if (!status_.ok() || ranks_ == 0) return status_;  // before `begin` there is no trace
  lanes_->show_all();
  samples_->show_all();
  if (status_.ok()) keep(database_.commit());
  if (status_.ok()) keep(database_.run("BEGIN"));
  return status_;
}

Status TraceRows::finish() {
  if (ready()) keep(close());
  statements_.reset();
  return status_;
}

// Where there is little to sum up, readers do so themselves.
void TraceRows::write_summary() {
  constexpr std::int64_t rows_min = 65536;
  if (std::int64_t{ranks_} * steps_ < rows_min || !sums_) return;
  for (const StepSummaryRow& row : sums_->summary().steps) write(row);
  for (const RankSummaryRow& row : sums_->summary().ranks) write(row);
}

Status TraceRows::close() {
  lanes_->flush_all();
  samples_->flush_all();
  write_summary();
  TESSERA_TRY(Status(status_));
  TESSERA_ASSIGN(content_hash_, close_trace(database_, {steps_, end_}, !scratch_));
  statements_.reset();
  return database_.commit();
}

}  // namespace tessera::storage
