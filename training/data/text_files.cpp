// SPDX-License-Identifier: Apache-2.0
// Files that are taken for text because of their name, and what they are instead.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "tessera/documents.h"

namespace tessera {
namespace {

// "is a NumPy array", "has zero bytes, ..."; empty: nothing says that it is no text.
std::string kind_of_binary(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, const char*>, 6> known = {
      {{"\x93NUMPY", "is a NumPy array"},
       {"\x1f\x8b", "is packed by gzip"},
       {"PK\x03\x04", "is a zip archive"},
       {"\x28\xb5\x2f\xfd", "is packed by zstd"},
       {"PAR1", "is a Parquet table"},
       {"ARROW1", "is an Arrow table"}}};
  for (const auto& [magic, kind] : known) {
    if (text.starts_with(magic)) return kind;
  }
  return text.find('\0') == text.npos ? "" : "has zero bytes, so it is binary or UTF-16";
}

// {"key or [{"key, with spaces anywhere.
bool begins_as_json(std::string_view text) {
  std::string begin;
  for (const char c : text) {
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    begin += c;
    if (begin.size() == 3) break;
  }
  return begin.starts_with("{\"") || begin == "[{\"";
}

bool is_table(std::string_view path) {
  std::string extension = std::filesystem::path(path).extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return extension == ".csv" || extension == ".tsv";
}

}  // namespace

std::size_t utf8_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  return text.starts_with(mark) ? mark.size() : 0;
}

std::string other_than_text(std::string_view path, std::string_view beginning) {
  const std::string binary = kind_of_binary(beginning);
  if (!binary.empty()) return binary + ", no text in UTF-8";
  if (begins_as_json(beginning.substr(utf8_mark(beginning)))) return "is JSON, no plain text";
  return is_table(path) ? "is a table by its name, no plain text" : "";
}

}  // namespace tessera
