// SPDX-License-Identifier: Apache-2.0
#include "query/text.h"

#include <fmt/format.h>

namespace tessera::query {
namespace {

std::string csv_of(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// As SQL writes it.
std::string text_of_blob(const Blob& blob) {
  std::string text = "x'";
  for (const char c : blob.begin) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  const std::int64_t left = blob.size - std::ssize(blob.begin);
  return text + "'" + (left == 0 ? "" : fmt::format(" and {} more bytes", left));
}

}  // namespace

std::string text_of(const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *number);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.10g}", *number);
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* blob = std::get_if<Blob>(&value)) return text_of_blob(*blob);
  return "";
}

std::vector<std::string> texts_of(const std::vector<Value>& row) {
  std::vector<std::string> cells;
  cells.reserve(row.size());
  for (const Value& value : row) cells.push_back(text_of(value));
  return cells;
}

std::vector<std::string> exact_texts_of(const std::vector<Value>& row) {
  std::vector<std::string> cells;
  cells.reserve(row.size());
  for (const Value& value : row) {
    const auto* real = std::get_if<double>(&value);
    cells.push_back(real != nullptr ? fmt::format("{}", *real) : text_of(value));
  }
  return cells;
}

std::string csv_line(const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t k = 0; k < cells.size(); ++k) line += (k == 0 ? "" : ",") + csv_of(cells[k]);
  // One empty cell would be an empty line, which readers skip.
  return (cells.size() == 1 && line.empty() ? "\"\"" : line) + "\n";
}

}  // namespace tessera::query
