// SPDX-License-Identifier: Apache-2.0
#include "storage/content_hash.h"

#include <fmt/format.h>

#include "storage/checksum.h"

namespace tessera::storage {
namespace {

/// Part of the format: docs/trace-format.md.
constexpr const char* hashed_rows[] = {
    "SELECT key, value FROM meta WHERE key NOT IN ('content_hash', 'version') ORDER BY key",
    "SELECT name, model, scheme, cluster, carrier, ranks, ranks_per_node, parameters,"
    " tokens_per_step, model_flops_per_step, peak_flops_per_rank, peak_name, memory_per_rank"
    " FROM run",
    "SELECT rank, node, recorded FROM rank ORDER BY rank",
    "SELECT id, name, role FROM stream ORDER BY id",
    "SELECT id, name, group_size, group_count FROM communicator ORDER BY id",
    "SELECT id, name, parameters, numel, padding FROM unit ORDER BY id",
    "SELECT id, kind, stream, communicator, step, micro_batch, phase, reason,"
    " (SELECT text FROM string WHERE id = unit), (SELECT text FROM string WHERE id = module),"
    " (SELECT text FROM string WHERE id = label), bytes, dtype, flops,"
    " (SELECT text FROM string WHERE id = algorithm) FROM op ORDER BY op.id",
    "SELECT op, after FROM op_after ORDER BY op, after",
    "SELECT id, (SELECT text FROM string WHERE id = name),"
    " (SELECT text FROM string WHERE id = unit), memory_class, bytes"
    " FROM buffer ORDER BY buffer.id",
    "SELECT step, rank, begin, end, compute, communication, exposed, blocking, wait,"
    " peak_allocated, peak_reserved FROM rank_step ORDER BY step, rank",
    "SELECT id, step, first_rank, end_rank, allocated, reserved FROM peak_memory ORDER BY id",
    "SELECT peak, memory_class, bytes FROM peak_memory_class ORDER BY peak, memory_class",
    "SELECT id, severity, code, rank, op, time, message FROM diagnostic ORDER BY id",
    "SELECT rank, stream, seq, count, t0, t1, checksum FROM span_chunk"
    " ORDER BY rank, stream, seq",
    "SELECT rank, seq, count, t0, t1, checksum FROM memory_chunk ORDER BY rank, seq",
};

/// What came later and is hashed only if it has rows, so that traces without them keep their hash.
constexpr const char* kernel_rows = "SELECT op, rank, time FROM op_kernel ORDER BY op, rank";

/// The type's number, then the value.
void add_column(const Statement& rows, int column, Checksum& checksum) {
  const int type = rows.type(column);
  checksum.add(std::int64_t{type});
  switch (type) {
    case SQLITE_INTEGER: return checksum.add(rows.integer(column));
    case SQLITE_FLOAT: return checksum.add(rows.real(column));
    case SQLITE_TEXT: return checksum.add(rows.text(column));
    case SQLITE_BLOB: return checksum.add(rows.blob(column));
    default: return;
  }
}

Result<std::int64_t> add_rows(const Database& database, const char* sql, Checksum& checksum) {
  TESSERA_ASSIGN(Statement rows, database.prepare(sql));
  for (std::int64_t count = 0;; ++count) {
    TESSERA_ASSIGN(const bool row, rows.next());
    if (!row) return count;
    for (int i = 0; i < rows.columns(); ++i) add_column(rows, i, checksum);
  }
}

}  // namespace

Result<std::string> content_hash_of(const Database& database) {
  Checksum checksum;
  for (const char* sql : hashed_rows) {
    TESSERA_ASSIGN(const std::int64_t count, add_rows(database, sql, checksum));
    checksum.add(count);
  }
  TESSERA_ASSIGN(const bool kernels, database.has_table("op_kernel"));
  if (kernels) {
    TESSERA_ASSIGN(const std::int64_t count, add_rows(database, kernel_rows, checksum));
    if (count > 0) checksum.add(count);
  }
  return fmt::format("{:016x}", checksum.value());
}

}  // namespace tessera::storage
