// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/table_columns.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::exchange {

Result<TableColumns> TableColumns::of(const SqliteFile& file, std::string table) {
  TableColumns columns;
  TESSERA_ASSIGN(columns.columns_, file.columns(table));
  columns.table_ = std::move(table);
  return columns;
}

bool TableColumns::has(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

bool TableColumns::has_all(std::initializer_list<std::string_view> columns) const {
  return std::all_of(columns.begin(), columns.end(), [&](std::string_view c) { return has(c); });
}

std::string TableColumns::pick(std::string_view alias,
                               std::initializer_list<std::string_view> columns) const {
  for (const std::string_view column : columns) {
    if (has(column)) return fmt::format("{}.\"{}\"", alias, column);
  }
  return "NULL";
}

std::string TableColumns::quoted() const {
  std::string text = "\"";
  for (const char c : table_) text += c == '"' ? std::string("\"\"") : std::string(1, c);
  return text + "\"";
}

}  // namespace tessera::exchange
