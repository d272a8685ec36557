// SPDX-License-Identifier: Apache-2.0
// The SQL that follows from the lists of records.h, and rows going both ways.
//
//   Insert<TraceUnit> insert;
//   TESSERA_TRY(insert.prepare(database));
//   TESSERA_TRY(insert.run(unit, intern));
//   TESSERA_TRY(read_rows<UnitRow>(database, [&](UnitRow&& row) { ... return Status(); }));
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "storage/database.h"
#include "storage/records.h"
#include "storage/texts.h"

namespace tessera::storage {

/// Calls use(column) for each column of the record, in order.
template <class Record, class F>
constexpr void for_each_column(F use) {
  std::apply([&](const auto&... column) { (use(column), ...); }, List<Record>::columns);
}

template <class Record>
constexpr int column_count =
    static_cast<int>(std::tuple_size_v<std::decay_t<decltype(List<Record>::columns)>>);

// A table's word for an enumerator, and the last one that this version knows.
struct EnumWords {
  const char* name;
  std::int64_t last;
};
constexpr EnumWords words_of(OpKind) {
  return {"op kind", static_cast<std::int64_t>(op_kind_last)};
}
constexpr EnumWords words_of(Phase) {
  return {"phase", static_cast<std::int64_t>(Phase::optimizer)};
}
constexpr EnumWords words_of(Reason) { return {"reason", static_cast<std::int64_t>(reason_last)}; }
constexpr EnumWords words_of(DType) { return {"dtype", static_cast<std::int64_t>(DType::uint8)}; }
constexpr EnumWords words_of(StreamRole) {
  return {"stream role", static_cast<std::int64_t>(StreamRole::host)};
}
constexpr EnumWords words_of(MemoryClass) { return {"memory class", memory_class_count - 1}; }
constexpr EnumWords words_of(DiagnosticSeverity) {
  return {"severity", static_cast<std::int64_t>(DiagnosticSeverity::data_loss)};
}

template <class Value>
constexpr bool is_text = std::is_convertible_v<const Value&, std::string_view>;
template <class Value>
constexpr bool is_quantity = std::is_same_v<Value, Bytes> || std::is_same_v<Value, Numel>;

/// The column's declared type in SQLite.
template <class Record, class Member>
const char* sql_type(const Column<Member>& column) {
  using Value = std::decay_t<decltype(std::declval<Record>().*(column.member))>;
  if constexpr (is_text<Value>) return column.interned ? "INTEGER" : "TEXT";
  if constexpr (std::is_same_v<Value, Blob>) return "BLOB";
  return std::is_floating_point_v<Value> ? "REAL" : "INTEGER";
}

/// "step, rank": what orders the rows.
template <class Record>
std::string key_of() {
  constexpr Key key = List<Record>::key;
  if constexpr (key == Key::arrival) return std::string(List<Record>::table) + ".id";
  std::string names;
  int left = key == Key::three ? 3 : key == Key::two ? 2 : key == Key::first ? 1 : 0;
  for_each_column<Record>([&](const auto& column) {
    if (left-- <= 0) return;
    names += fmt::format("{}{}.{}", names.empty() ? "" : ", ", List<Record>::table, column.name);
  });
  return names;
}

/// The expression that selects a column: texts as texts.
template <class Member>
std::string expression_of(const Column<Member>& column) {
  return column.interned ? fmt::format("(SELECT text FROM string WHERE id = {})", column.name)
                         : column.name;
}

/// Whether texts are selected, or their numbers.
enum class Selected : std::uint8_t { texts, numbers };

/// "SELECT a, b FROM t ORDER BY a". In place of columns that are not `wanted` stands `otherwise`,
/// or nothing.
template <class Record, class F>
std::string select_sql(F wanted, const char* otherwise = nullptr, const char* where = "",
                       Selected selected = Selected::texts) {
  std::string names = List<Record>::key == Key::arrival ? "id" : "";
  for_each_column<Record>([&](const auto& column) {
    if (!wanted(column) && otherwise == nullptr) return;
    if (!names.empty()) names += ", ";
    const bool text = selected == Selected::texts;
    names += !wanted(column) ? otherwise : text ? expression_of(column) : column.name;
  });
  const std::string key = key_of<Record>();
  return fmt::format("SELECT {} FROM {}{}{}{}", names, List<Record>::table, where,
                     key.empty() ? "" : " ORDER BY ", key);
}

/// A column that older files lack: the rows in which it says something, with their key.
struct LaterColumn {
  std::string table, name, sql;
};

template <class Record>
void append_later(std::vector<LaterColumn>& out) {
  for_each_column<Record>([&](const auto& column) {
    if (!column.later) return;
    const std::string key = key_of<Record>();
    out.push_back({List<Record>::table, column.name,
                   fmt::format("SELECT {}{}{} FROM {} WHERE {} NOT IN (0, ''){}{}", key,
                               key.empty() ? "" : ", ", expression_of(column), List<Record>::table,
                               column.name, key.empty() ? "" : " ORDER BY ", key)});
  });
}

/// Writes records of one kind. A chunk takes the place of what was shown of it before it was full.
template <class Record>
class Insert {
 public:
  static constexpr bool replaces =
      std::is_same_v<Record, SpanChunkRow> || std::is_same_v<Record, MemoryChunkRow>;
  static constexpr const char* verb = replaces ? "INSERT OR REPLACE" : "INSERT";

  Status prepare(const Database& database) {
    const char* const id = List<Record>::key == Key::arrival ? "NULL, " : "";
    std::string places = "?";
    for (int i = 1; i < column_count<Record>; ++i) places += ", ?";
    TESSERA_ASSIGN(statement_, database.prepare(fmt::format("{} INTO {} VALUES ({}{})", verb,
                                                            List<Record>::table, id, places)));
    return {};
  }
  /// `intern` gives the number of a text; texts get theirs in the order of the columns.
  template <class Intern>
  Status run(const Record& record, Intern intern) {
    int index = 0;
    for_each_column<Record>([&](const auto& column) {
      const auto& value = record.*(column.member);
      using Value = std::decay_t<decltype(value)>;
      ++index;
      if constexpr (is_text<Value>) {
        if (column.interned) {
          statement_.set(index, std::int64_t{intern(value)});
        } else {
          statement_.set(index, std::string_view(value));
        }
      } else if constexpr (is_quantity<Value>) {
        statement_.set(index, value.value);
      } else if constexpr (std::is_enum_v<Value>) {
        statement_.set(index, static_cast<std::int64_t>(value));
      } else if constexpr (std::is_integral_v<Value>) {
        statement_.set(index, std::int64_t{value});
      } else {
        statement_.set(index, value);
      }
    });
    return statement_.run();
  }

 private:
  Statement statement_{nullptr};
};

/// The type of SQLite that a value is kept as.
template <class Value>
constexpr int stored_type() {
  if constexpr (is_text<Value>) return SQLITE_TEXT;
  if constexpr (std::is_same_v<Value, Blob>) return SQLITE_BLOB;
  return std::is_floating_point_v<Value> ? SQLITE_FLOAT : SQLITE_INTEGER;
}

/// Column `index` of the row. Fails: corrupt (another type, a number out of range), not_supported
/// (an enumerator of a later version).
template <class Value>
Status read_value(const Statement& row, int index, const char* table, const char* name,
                  Value& value) {
  const auto damaged = [&](std::string_view what) {
    return Status(Code::corrupt, fmt::format("The trace is damaged: {}.{} {}.", table, name, what));
  };
  if (row.type(index) == SQLITE_NULL) return damaged("is missing in a row");
  if (row.type(index) != stored_type<Value>()) return damaged("has another type in a row");
  if constexpr (is_text<Value>) {
    value = row.text(index);
  } else if constexpr (std::is_enum_v<Value>) {
    const std::int64_t number = row.integer(index);
    constexpr EnumWords words = words_of(Value{});
    if (number < 0 || number > words.last) {
      return {Code::not_supported,
              fmt::format("The trace has {} {}, which this version does not know. Use a newer "
                          "version of tessera.",
                          words.name, number)};
    }
    value = static_cast<Value>(number);
  } else if constexpr (is_quantity<Value>) {
    value.value = row.integer(index);
  } else if constexpr (std::is_floating_point_v<Value>) {
    value = row.real(index);
  } else if constexpr (std::is_same_v<Value, Blob>) {
    value = row.blob(index);
  } else {
    const std::int64_t number = row.integer(index);
    if (!std::in_range<Value>(number)) return damaged(fmt::format("is {} in a row", number));
    value = static_cast<Value>(number);
  }
  return {};
}

/// The same of a column, which may have the number of a text.
template <class Column, class Value>
Status read_column(const Statement& row, int index, const char* table, const Column& column,
                   const Texts& texts, Value& value) {
  if constexpr (is_text<Value>) {
    if (column.interned) {
      std::int64_t number = 0;
      TESSERA_TRY(read_value(row, index, table, column.name, number));
      if (const auto text = texts.find(number)) {
        value = *text;
        return {};
      }
      return {Code::corrupt,
              fmt::format("The trace is damaged: {}.{} is missing in a row.", table, column.name)};
    }
  }
  return read_value(row, index, table, column.name, value);
}

/// Calls use(member of A, member of B) for each column of steps, which both have.
template <class A, class B, class F>
void for_each_step_column(F use) {
  constexpr std::size_t count = std::tuple_size_v<std::decay_t<decltype(rank_step_columns<A>)>>;
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (use(std::get<I>(rank_step_columns<A>).member, std::get<I>(rank_step_columns<B>).member), ...);
  }
  (std::make_index_sequence<count>{});
}

/// Calls read_row(statement) -> Status for each row of a query.
template <class F>
Status for_each_row(const Database& database, std::string_view sql, F read_row) {
  TESSERA_ASSIGN(Statement statement, database.prepare(sql));
  // SQLite locks its connection for every column, which costs less for whoever has it already;
  // others get their turn in between.
  constexpr int rows_at_once = 64;
  for (;;) {
    const auto lock = database.lock();
    for (int k = 0; k < rows_at_once; ++k) {
      TESSERA_ASSIGN(const bool row, statement.next());
      if (!row) return {};
      TESSERA_TRY(read_row(statement));
    }
  }
}

/// Whether rows come by ascending key, as pages that lead in circles cannot give them.
template <class Record>
class AscendingKeys {
 public:
  /// Fails: corrupt.
  Status next(const Statement& row) {
    if constexpr (size > 0) {
      std::array<std::int64_t, size> key{};
      for (std::size_t i = 0; i < size; ++i) key[i] = row.integer(static_cast<int>(i));
      if (!first_ && key <= last_) {
        return {Code::corrupt, fmt::format("The trace is damaged: the rows of {} are out of order.",
                                           List<Record>::table)};
      }
      first_ = false;
      last_ = key;
    }
    return {};
  }

 private:
  static constexpr Key kind = List<Record>::key;
  static constexpr bool texts = std::is_same_v<Record, MetaRow>;
  static constexpr std::size_t size = texts || kind == Key::none ? 0
                                      : kind == Key::three       ? 3
                                      : kind == Key::two         ? 2
                                                                 : 1;
  bool first_ = true;
  std::array<std::int64_t, size> last_{};
};

/// Bytes of texts that a table may have for each byte of the file, as one text can be the name of
/// many rows, and those that it may have anyway.
inline constexpr std::int64_t texts_per_byte = 4, texts_at_least = 8 << 20;

/// Calls use(record) -> Status, or use(id, record) if the key is the arrival, for each row by key;
/// with `where`, " WHERE ...", of these only, and no more than `most`. Fails: corrupt,
/// not_supported, what `use` fails with.
template <class Record, class F>
Status read_rows(const Database& database, F use, const std::string& where = "",
                 std::int32_t most = -1) {
  bool interns = false;
  for_each_column<Record>([&](const auto& column) { interns |= column.interned; });
  Texts texts;
  if (interns) TESSERA_TRY(texts.read(database));
  Status unknown;
  const auto there = [&](const auto& column) {
    if (!column.later) return true;
    const Result<bool> found = database.has_column(List<Record>::table, column.name);
    if (!found.ok()) unknown = found.status();
    return found.ok() && *found;
  };
  std::string sql = select_sql<Record>(there, "NULL", where.c_str(), Selected::numbers);
  sql += fmt::format(" LIMIT {}", most);  // below 0: all
  TESSERA_TRY(std::move(unknown));
  AscendingKeys<Record> keys;
  std::int64_t texts_left = texts_at_least + texts_per_byte * database.size();
  return for_each_row(database, sql, [&](const Statement& row) -> Status {
    constexpr bool arrival = List<Record>::key == Key::arrival;
    TESSERA_TRY(keys.next(row));
    Record record{};
    Status status;
    int index = arrival ? 1 : 0;
    for_each_column<Record>([&](const auto& column) {
      auto& value = record.*(column.member);
      const bool lacks = column.later && row.type(index) == SQLITE_NULL;
      if (status.ok() && !lacks) {
        status = read_column(row, index, List<Record>::table, column, texts, value);
      }
      if constexpr (is_text<std::decay_t<decltype(value)>>) {
        texts_left -= static_cast<std::int64_t>(value.size());
      }
      ++index;
    });
    TESSERA_TRY(std::move(status));
    if (texts_left < 0) {
      return {Code::corrupt,
              fmt::format("The trace is damaged: the texts of {} take more than {} times the file.",
                          List<Record>::table, texts_per_byte)};
    }
    if constexpr (arrival) {
      return use(row.integer(0), std::move(record));
    } else {
      return use(std::move(record));
    }
  });
}

}  // namespace tessera::storage
