// SPDX-License-Identifier: Apache-2.0
// https://www.sqlite.org/vtab.html
#include "query/module.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "query/memory_rows.h"
#include "query/path_rows.h"
#include "query/span_rows.h"
#include "query/step_rows.h"

namespace tessera::query {
namespace {

constexpr Time time_min = std::numeric_limits<Time>::min();
constexpr Time time_max = std::numeric_limits<Time>::max();

/// What a module is registered with.
struct Registered {
  std::shared_ptr<Source> source;
  const TableKind* kind;
};

struct VirtualTable {
  sqlite3_vtab base;  // SQLite's part; the first, as it is told of this struct by it
  Registered registered;
};

struct Cursor {
  sqlite3_vtab_cursor base;
  std::unique_ptr<Rows> rows;
  Wanted wanted;
  std::vector<std::int32_t> parts;  // that are wanted: ranks, or what the table has instead
  std::size_t part = 0;             // index of the one that is loaded
  std::size_t row = 0;              // of its rows
};

VirtualTable& table_of(sqlite3_vtab_cursor* cursor) {
  return *reinterpret_cast<VirtualTable*>(cursor->pVtab);
}

int fail(sqlite3_vtab* table, const Status& status) {
  sqlite3_free(table->zErrMsg);
  table->zErrMsg = sqlite3_mprintf("%s", status.message().c_str());
  return SQLITE_ERROR;
}

int connect(sqlite3* connection, void* registered, int, const char* const*, sqlite3_vtab** out,
            char**) {
  const auto& from = *static_cast<Registered*>(registered);
  std::string sql = "CREATE TABLE x(";
  for (const ColumnKind& column : from.kind->columns) {
    sql += fmt::format("{}\"{}\" {}", sql.back() == '(' ? "" : ", ", column.name, column.type);
  }
  const int result = sqlite3_declare_vtab(connection, (sql + ")").c_str());
  if (result != SQLITE_OK) return result;
  sqlite3_vtab_config(connection, SQLITE_VTAB_INNOCUOUS);
  *out = &(new VirtualTable{{}, from})->base;
  return SQLITE_OK;
}

int disconnect(sqlite3_vtab* table) {
  delete reinterpret_cast<VirtualTable*>(table);
  return SQLITE_OK;
}

// How a condition is handed from best_index to filter: a letter each, in the order of the values.
enum class Condition : char {
  rank = 'r',
  stream = 's',
  op = 'o',
  step = 'p',
  from = 'f',     // begin or time >= value
  after = 'a',    // end >= value: what ends there may have begun before
  to = 't',       // begin, end or time <= value
  at = '=',       // begin or time == value
  ends_at = 'e',  // end == value
};

std::optional<Condition> condition_of(Bound bound, unsigned char op) {
  const bool equal = op == SQLITE_INDEX_CONSTRAINT_EQ;
  const bool below = op == SQLITE_INDEX_CONSTRAINT_LT || op == SQLITE_INDEX_CONSTRAINT_LE;
  const bool above = op == SQLITE_INDEX_CONSTRAINT_GT || op == SQLITE_INDEX_CONSTRAINT_GE;
  switch (bound) {
    case Bound::rank: return equal ? std::optional(Condition::rank) : std::nullopt;
    case Bound::stream: return equal ? std::optional(Condition::stream) : std::nullopt;
    case Bound::op: return equal ? std::optional(Condition::op) : std::nullopt;
    case Bound::step: return equal ? std::optional(Condition::step) : std::nullopt;
    case Bound::begin:
    case Bound::time:
      if (equal) return Condition::at;
      if (above) return Condition::from;
      return below ? std::optional(Condition::to) : std::nullopt;
    case Bound::end:
      if (equal) return Condition::ends_at;
      if (above) return Condition::after;
      return below ? std::optional(Condition::to) : std::nullopt;
    case Bound::none: break;
  }
  return std::nullopt;
}

/// What is grouped by that needs no sorting: 16 million rows of `rank_step` would be kept for it.
bool comes_in_order(const TableKind& kind, const sqlite3_index_info& info) {
  if (info.nOrderBy < 1 || info.nOrderBy > std::ssize(kind.order)) return false;
  for (int k = 0; k < info.nOrderBy; ++k) {
    const auto& wanted = info.aOrderBy[k];
    if (wanted.desc != 0 || wanted.iColumn < 0) return false;
    const Bound bound = kind.columns[static_cast<std::size_t>(wanted.iColumn)].bound;
    if (bound != kind.order[static_cast<std::size_t>(k)]) return false;
  }
  return true;
}

int best_index(sqlite3_vtab* table, sqlite3_index_info* info) {
  const TableKind& kind = *reinterpret_cast<VirtualTable*>(table)->registered.kind;
  const auto& columns = kind.columns;
  std::string plan;
  double rows = 1e8;
  for (int i = 0; i < info->nConstraint; ++i) {
    const auto& constraint = info->aConstraint[i];
    if (!constraint.usable || constraint.iColumn < 0) continue;
    const auto condition =
        condition_of(columns[static_cast<std::size_t>(constraint.iColumn)].bound, constraint.op);
    if (!condition) continue;
    plan += static_cast<char>(*condition);
    info->aConstraintUsage[i].argvIndex = static_cast<int>(plan.size());
    switch (*condition) {
      case Condition::rank:
      case Condition::step: rows /= 1000; break;
      case Condition::op: rows /= 10000; break;
      case Condition::at:
      case Condition::ends_at: rows /= 1000; break;
      default: rows /= 4;
    }
  }
  info->idxStr = sqlite3_mprintf("%s", plan.c_str());
  info->needToFreeIdxStr = 1;
  info->orderByConsumed = comes_in_order(kind, *info) ? 1 : 0;
  info->estimatedRows = static_cast<sqlite3_int64>(std::max(rows, 1.0));
  // Without a rank all are unpacked, whatever else is asked for.
  info->estimatedCost = (plan.find_first_of("rp") == std::string::npos ? 1e8 : 1e5) + rows;
  return SQLITE_OK;
}

int open(sqlite3_vtab* table, sqlite3_vtab_cursor** out) {
  auto cursor = std::make_unique<Cursor>();
  cursor->rows = reinterpret_cast<VirtualTable*>(table)->registered.kind->make_rows();
  *out = &cursor.release()->base;
  return SQLITE_OK;
}

int close(sqlite3_vtab_cursor* cursor) {
  delete reinterpret_cast<Cursor*>(cursor);
  return SQLITE_OK;
}

/// Narrows `wanted`; a value that is no integer says nothing that could not be looked at later.
/// False: no row can fit.
void narrow(Condition condition, std::int64_t value, Wanted& wanted) {
  const auto next = [](Time time) { return time == time_max ? time : time + 1; };
  const auto before = [](Time time) { return time == time_min ? time : time - 1; };
  const auto fits = [&](auto& number) {
    // What does not fit can be no id; -2 is none, either.
    number = value >= -1 && value <= std::numeric_limits<std::int32_t>::max()
                 ? static_cast<std::int32_t>(value)
                 : -2;
  };
  switch (condition) {
    case Condition::rank: return fits(wanted.rank);
    case Condition::stream: return fits(wanted.stream);
    case Condition::op: return fits(wanted.op);
    case Condition::step: return fits(wanted.step);
    case Condition::at:
      wanted.from = std::max(wanted.from, value);
      wanted.to = std::min(wanted.to, next(value));
      return;
    case Condition::from: wanted.from = std::max(wanted.from, value); return;
    case Condition::after: wanted.from = std::max(wanted.from, before(value)); return;
    case Condition::to: wanted.to = std::min(wanted.to, next(value)); return;
    case Condition::ends_at:
      wanted.from = std::max(wanted.from, before(value));
      wanted.to = std::min(wanted.to, next(value));
  }
}

/// Loads parts until one has a row.
int load(Cursor& cursor) {
  Source& source = *table_of(&cursor.base).registered.source;
  cursor.row = 0;
  for (; cursor.part < cursor.parts.size(); ++cursor.part) {
    const Status status = cursor.rows->load(source, cursor.parts[cursor.part], cursor.wanted);
    if (!status.ok()) return fail(cursor.base.pVtab, status);
    if (cursor.rows->size() > 0) break;
  }
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* base, int, const char* plan, int count, sqlite3_value** values) {
  Cursor& cursor = *reinterpret_cast<Cursor*>(base);
  Source& source = *table_of(base).registered.source;
  cursor.wanted = {{}, {}, {}, {}, time_min, time_max};
  for (int i = 0; i < count; ++i) {
    if (sqlite3_value_type(values[i]) != SQLITE_INTEGER) continue;
    narrow(static_cast<Condition>(plan[i]), sqlite3_value_int64(values[i]), cursor.wanted);
  }
  cursor.parts.clear();
  cursor.part = 0;
  const auto trace = source.trace();
  if (!trace.ok()) return fail(base->pVtab, trace.status());
  const auto parts = table_of(base).registered.kind->parts;
  for (std::int32_t part = 0; parts != nullptr && part < parts(**trace); ++part) {
    cursor.parts.push_back(part);
  }
  for (const Rank rank : (*trace)->run().recorded_ranks) {
    if (parts != nullptr) break;
    if (!cursor.wanted.rank || *cursor.wanted.rank == rank) cursor.parts.push_back(rank);
  }
  return load(cursor);
}

int next(sqlite3_vtab_cursor* base) {
  Cursor& cursor = *reinterpret_cast<Cursor*>(base);
  if (++cursor.row < cursor.rows->size()) return SQLITE_OK;
  ++cursor.part;
  return load(cursor);
}

int at_end(sqlite3_vtab_cursor* base) {
  const Cursor& cursor = *reinterpret_cast<Cursor*>(base);
  return cursor.part >= cursor.parts.size() ? 1 : 0;
}

class ContextCell : public Cell {
 public:
  explicit ContextCell(sqlite3_context* context) : context_(context) {}
  void integer(std::int64_t value) override { sqlite3_result_int64(context_, value); }
  void real(double value) override { sqlite3_result_double(context_, value); }
  void text(std::string_view value) override {
    sqlite3_result_text64(context_, value.data(), value.size(), SQLITE_STATIC, SQLITE_UTF8);
  }
  void nothing() override { sqlite3_result_null(context_); }

 private:
  sqlite3_context* context_;
};

int column(sqlite3_vtab_cursor* base, sqlite3_context* context, int column) {
  const Cursor& cursor = *reinterpret_cast<Cursor*>(base);
  ContextCell cell(context);
  cursor.rows->value(cursor.row, column, cell);
  return SQLITE_OK;
}

int row_id(sqlite3_vtab_cursor* base, sqlite3_int64* id) {
  const Cursor& cursor = *reinterpret_cast<Cursor*>(base);
  *id = static_cast<sqlite3_int64>(cursor.part) << 40 | static_cast<sqlite3_int64>(cursor.row);
  return SQLITE_OK;
}

/// Without xCreate a table is there by its name, in every connection, and cannot be made or lost.
sqlite3_module make_module() {
  sqlite3_module module{};
  module.xConnect = connect;
  module.xBestIndex = best_index;
  module.xDisconnect = disconnect;
  module.xOpen = open;
  module.xClose = close;
  module.xFilter = filter;
  module.xNext = next;
  module.xEof = at_end;
  module.xColumn = column;
  module.xRowid = row_id;
  return module;
}

}  // namespace

std::span<const TableKind> tables() {
  static const std::array kinds = {span_table,       op_rank_table,   memory_sample_table,
                                   allocation_table, rank_step_table, critical_path_table};
  return kinds;
}

Status register_tables(sqlite3* connection, const std::string& path, bool verified) {
  static const sqlite3_module module = make_module();
  const auto source = std::make_shared<Source>(path, verified);
  for (const TableKind& kind : tables()) {
    const int result = sqlite3_create_module_v2(
        connection, kind.name, &module, new Registered{source, &kind},
        [](void* registered) { delete static_cast<Registered*>(registered); });
    if (result == SQLITE_OK) continue;
    return {Code::corrupt,
            fmt::format("SQLite refuses the table {}: {}.", kind.name, sqlite3_errstr(result))};
  }
  return {};
}

}  // namespace tessera::query
