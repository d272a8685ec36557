// SPDX-License-Identifier: Apache-2.0
// Answers of a trace as text.
#pragma once

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "query/text.h"

namespace tessera::test {

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
            [&](const auto& row) { add(row, query::text_of); }});
  return status.ok() ? text : status.message();
}

inline query::Query open_example() {
  auto query = query::Query::open(std::string(TESSERA_SOURCE_DIR) + "/traces/gpt2-8-h100.tessera");
  INFO(query.status().message());
  REQUIRE(query.ok());
  return std::move(query).value();
}

}  // namespace tessera::test
