// SPDX-License-Identifier: Apache-2.0
#include "storage/close_trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "storage/content_hash.h"
#include "storage/record_sql.h"

namespace tessera::storage {
namespace {

Result<std::int64_t> number(const Database& database, std::string_view sql) {
  TESSERA_ASSIGN(Statement row, database.prepare(sql));
  TESSERA_ASSIGN(const bool there, row.next());
  return there ? row.integer(0) : 0;
}

Status write_meta(Database& database, std::string_view key, const std::string& value) {
  TESSERA_ASSIGN(Statement insert, database.prepare("INSERT OR REPLACE INTO meta VALUES (?, ?)"));
  insert.bind(key, std::string_view(value));
  return insert.run();
}

}  // namespace

Result<ReachedByTables> reached_by(const Database& database) {
  ReachedByTables reached;
  // The rows of a step are committed together.
  TESSERA_ASSIGN(const bool rows, database.has_table(List<RankStepRow>::table));
  const char* const steps_sql =
      rows ? "SELECT max(step) + 1 FROM rank_step" : "SELECT max(step) + 1 FROM rank_step_chunk";
  TESSERA_ASSIGN(const std::int64_t steps, number(database, steps_sql));
  TESSERA_ASSIGN(reached.end, number(database, rows ? "SELECT max(end) FROM rank_step"
                                                    : "SELECT max(t1) FROM rank_step_chunk"));
  TESSERA_ASSIGN(const Time spans, number(database, "SELECT max(t1) FROM span_chunk"));
  TESSERA_ASSIGN(const Time samples, number(database, "SELECT max(t1) FROM memory_chunk"));
  reached.steps = static_cast<std::int32_t>(steps);
  reached.time = std::max({reached.end, spans, samples});
  return reached;
}

Result<std::string> close_trace(Database& database, const Reached& reached, bool hashed) {
  TESSERA_TRY(write_meta(database, "steps", fmt::format("{}", reached.steps)));
  TESSERA_TRY(write_meta(database, "end", fmt::format("{}", reached.end)));
  std::string hash;
  if (hashed) {
    TESSERA_ASSIGN(hash, content_hash_of(database));
  }
  TESSERA_TRY(write_meta(database, "content_hash", hash));
  return hash;
}

Result<ReachedByTables> close_cut_trace(Database& database, const std::string& why) {
  TESSERA_ASSIGN(const std::int64_t runs, number(database, "SELECT count(*) FROM run"));
  if (runs == 0) return Status(Code::corrupt, "nothing was recorded");
  TESSERA_ASSIGN(ReachedByTables reached, reached_by(database));
  TESSERA_TRY(database.run("BEGIN"));
  Insert<TraceDiagnostic> insert;
  TESSERA_TRY(insert.prepare(database));
  TESSERA_TRY(insert.run({.severity = DiagnosticSeverity::data_loss,
                          .code = "cut",
                          .time = reached.time,
                          .message = why},
                         [](std::string_view) { return 0; }));
  TESSERA_ASSIGN(reached.content_hash, close_trace(database, reached));
  TESSERA_TRY(database.commit());
  return reached;
}

}  // namespace tessera::storage
