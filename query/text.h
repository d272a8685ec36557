// SPDX-License-Identifier: Apache-2.0
// Answers as text, for people and for spreadsheets.
//
//   print(csv_line(texts_of(row)));
#pragma once

#include <string>
#include <vector>

#include "query/query.h"

namespace tessera::query {

/// "" for NULL, numbers with up to ten digits, "x'00ff'" for a blob, which SQL reads; of
/// a long one "x'...' and 968 more bytes", which hex() shows.
std::string text_of(const Value& value);
std::vector<std::string> texts_of(const std::vector<Value>& row);
/// The same, with all digits that a number needs to be read back: for files.
std::vector<std::string> exact_texts_of(const std::vector<Value>& row);
/// Comma-separated with a newline, as RFC 4180 has it: quoted where a comma, a quote or the end of
/// a line is in a cell.
std::string csv_line(const std::vector<std::string>& cells);

}  // namespace tessera::query
