// SPDX-License-Identifier: Apache-2.0
// Answers of a trace as text.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "query/query.h"

namespace tessera::test {

inline std::string cell_text(const query::Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.10g}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  return std::holds_alternative<std::monostate>(value) ? "" : "<blob>";
}

/// Lines of cells between commas, the names first; the error's sentence if it fails.
inline std::string answer(query::Query& query, const std::string& sql) {
  std::string text;
  const auto add = [&](const auto& cells, auto text_of_cell) {
    std::size_t k = 0;
    for (const auto& cell : cells) text += (k++ == 0 ? "" : ",") + text_of_cell(cell);
    text += "\n";
  };
  const Status status = query.run(
      sql, {[&](const auto& names) { add(names, [](const std::string& name) { return name; }); },
            [&](const auto& row) { add(row, cell_text); }});
  return status.ok() ? text : status.message();
}

inline query::Query open_example() {
  auto query = query::Query::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera");
  INFO(query.status().message());
  REQUIRE(query.ok());
  return std::move(query).value();
}

}  // namespace tessera::test
