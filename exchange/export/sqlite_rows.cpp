// SPDX-License-Identifier: Apache-2.0
// Ordinary tables with names in place of numbers: larger, and for any SQL.
#include <fmt/format.h>
#include <sqlite3.h>

#include <cstdio>

#include "engine/text/text_file.h"
#include "exchange/export/exporter.h"

namespace tessera::exchange {
namespace {

constexpr const char* tables = R"(
PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
CREATE TABLE run (name TEXT, model TEXT, scheme TEXT, cluster TEXT, backend TEXT, options TEXT,
  ranks INTEGER, ranks_per_node INTEGER);
CREATE TABLE op (id INTEGER PRIMARY KEY, kind TEXT, stream TEXT, communicator TEXT,
  group_size INTEGER, step INTEGER, micro_batch INTEGER, phase TEXT, reason TEXT, unit TEXT,
  module TEXT, label TEXT, bytes INTEGER, dtype TEXT, flops REAL, algorithm TEXT);
CREATE TABLE span (rank INTEGER, stream TEXT, op INTEGER, begin INTEGER, ready INTEGER,
  end INTEGER);
CREATE TABLE memory_sample (rank INTEGER, time INTEGER, buffer INTEGER, memory_class TEXT,
  delta INTEGER, allocated INTEGER, reserved INTEGER);
CREATE TABLE buffer (id INTEGER PRIMARY KEY, name TEXT, unit TEXT, memory_class TEXT,
  bytes INTEGER);
CREATE TABLE rank_step (step INTEGER, rank INTEGER, begin INTEGER, end INTEGER, compute INTEGER,
  communication INTEGER, exposed INTEGER, blocking INTEGER, wait INTEGER, peak_allocated INTEGER,
  peak_reserved INTEGER);
CREATE TABLE diagnostic (severity INTEGER, code TEXT, rank INTEGER, op INTEGER, time INTEGER,
  message TEXT);)";

/// One INSERT, used for many rows.
class Rows {
 public:
  Rows(sqlite3* database, const char* table, int columns) {
    std::string sql = fmt::format("INSERT INTO {} VALUES (?", table);
    for (int i = 1; i < columns; ++i) sql += ",?";
    sqlite3_prepare_v2(database, (sql + ")").c_str(), -1, &statement_, nullptr);
  }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;
  ~Rows() { sqlite3_finalize(statement_); }

  template <class... Values>
  bool add(const Values&... values) {
    int column = 0;
    (bind(++column, values), ...);
    const bool done = sqlite3_step(statement_) == SQLITE_DONE;
    return sqlite3_reset(statement_) == SQLITE_OK && done;
  }

 private:
  void bind(int column, std::int64_t value) { sqlite3_bind_int64(statement_, column, value); }
  void bind(int column, Bytes value) { bind(column, value.value); }
  void bind(int column, double value) { sqlite3_bind_double(statement_, column, value); }
  void bind(int column, std::string_view value) {
    sqlite3_bind_text(statement_, column, value.data(), static_cast<int>(value.size()),
                      SQLITE_TRANSIENT);
  }

  sqlite3_stmt* statement_ = nullptr;
};

class SqliteRows final : public Exporter {
 public:
  SqliteRows(const analysis::Trace& trace, const std::string& out)
      : trace_(trace), out_(behind_links(out)) {}
  ~SqliteRows() override {
    close();
    if (begun_ && !published_) std::remove(beside().c_str());
  }

  Status begin() override {
    TESSERA_TRY(check_replaceable(out_));
    TESSERA_TRY(check_replaces_export(out_));
    TESSERA_TRY(check_replaces_export(beside()));  // a recording that was killed, perhaps
    std::remove(beside().c_str());
    begun_ = true;
    if (sqlite3_open(beside().c_str(), &database_) != SQLITE_OK ||
        sqlite3_exec(database_, tables, nullptr, nullptr, nullptr) != SQLITE_OK) {
      return failed();
    }
    spans_ = std::make_unique<Rows>(database_, "span", 6);
    samples_ = std::make_unique<Rows>(database_, "memory_sample", 7);
    TESSERA_TRY(add_run());
    TESSERA_TRY(add_ops());
    return add_steps();
  }

  Status span(const ExportedSpan& s) override {
    return kept(spans_->add(std::int64_t{s.rank}, std::string_view(s.stream->name),
                            std::int64_t{s.op->id}, s.begin, s.ready, s.end));
  }

  bool wants_memory() const override { return true; }
  Status memory(const storage::MemorySeries& m) override {
    for (std::size_t i = 0; i < m.time.size(); ++i) {
      TESSERA_TRY(kept(samples_->add(std::int64_t{m.rank}, m.time[i], std::int64_t{m.buffer[i]},
                                     name_of(m.memory_class[i]), m.delta[i], m.allocated[i],
                                     m.reserved[i])));
    }
    return {};
  }

  Status finish(Exported& done) override {
    TESSERA_TRY(kept(sqlite3_exec(database_, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK));
    close();
    published_ = std::rename(beside().c_str(), out_.c_str()) == 0;
    if (!published_) return {Code::io_error, fmt::format("Cannot write \"{}\".", out_)};
    done.files.push_back(out_);
    return {};
  }

 private:
  std::string beside() const { return out_ + ".partial"; }
  Status failed() const {
    return {Code::io_error,
            fmt::format("Cannot write \"{}\": {}.", out_,
                        database_ == nullptr ? "no memory" : sqlite3_errmsg(database_))};
  }
  Status kept(bool good) const { return good ? Status() : failed(); }
  void close() {
    spans_.reset();
    samples_.reset();
    sqlite3_close(database_);
    database_ = nullptr;
  }

  Status add_run() {
    const TraceRun& run = trace_.run();
    Rows rows(database_, "run", 8);
    TESSERA_TRY(kept(rows.add(std::string_view(run.name), std::string_view(run.model),
                              std::string_view(run.scheme), std::string_view(run.cluster),
                              std::string_view(run.backend), std::string_view(run.options),
                              std::int64_t{run.ranks}, std::int64_t{run.ranks_per_node})));
    Rows diagnostics(database_, "diagnostic", 6);
    for (const auto& d : trace_.diagnostics()) {
      TESSERA_TRY(kept(diagnostics.add(static_cast<std::int64_t>(d.severity),
                                       std::string_view(d.code), std::int64_t{d.rank},
                                       std::int64_t{d.op}, d.time, std::string_view(d.message))));
    }
    return {};
  }

  Status add_ops() {
    Rows rows(database_, "op", 16);
    for (const storage::OpRow& op : trace_.ops()) {
      const auto* const group = trace_.communicator(op);
      TESSERA_TRY(kept(rows.add(
          std::int64_t{op.id}, name_of(op.kind), std::string_view(trace_.stream(op.stream).name),
          group == nullptr ? std::string_view() : std::string_view(group->name),
          std::int64_t{group == nullptr ? 0 : group->group_size}, std::int64_t{op.step},
          std::int64_t{op.micro_batch}, name_of(op.phase), name_of(op.reason),
          std::string_view(op.unit), std::string_view(op.module), std::string_view(op.label),
          op.bytes, name_of(op.dtype), op.flops, std::string_view(op.algorithm))));
    }
    TESSERA_ASSIGN(const Buffers buffers, trace_.reader().buffers());
    Rows buffer_rows(database_, "buffer", 5);
    for (const storage::BufferRow& b : buffers) {
      TESSERA_TRY(
          kept(buffer_rows.add(std::int64_t{b.id}, std::string_view(b.name),
                               std::string_view(b.unit), name_of(b.memory_class), b.bytes)));
    }
    return {};
  }

  Status add_steps() {
    const storage::RankSteps& s = trace_.steps();
    Rows rows(database_, "rank_step", 11);
    for (std::size_t i = 0; i < s.begin.size(); ++i) {
      const auto ranks = static_cast<std::size_t>(s.ranks);
      TESSERA_TRY(
          kept(rows.add(static_cast<std::int64_t>(i / ranks), static_cast<std::int64_t>(i % ranks),
                        s.begin[i], s.end[i], s.compute[i], s.communication[i], s.exposed[i],
                        s.blocking[i], s.wait[i], s.peak_allocated[i], s.peak_reserved[i])));
    }
    return {};
  }

  const analysis::Trace& trace_;
  const std::string out_;
  sqlite3* database_ = nullptr;
  std::unique_ptr<Rows> spans_, samples_;
  bool begun_ = false, published_ = false;
};

}  // namespace

Result<std::unique_ptr<Exporter>> sqlite_exporter(const analysis::Trace& trace,
                                                  const std::string& out, Rank) {
  return std::unique_ptr<Exporter>(std::make_unique<SqliteRows>(trace, out));
}

}  // namespace tessera::exchange
