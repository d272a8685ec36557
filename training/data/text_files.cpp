// SPDX-License-Identifier: Apache-2.0
// Files that are taken for text because of their name, and what they are instead.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "tessera/documents.h"
#include "tessera/safetensors.h"

namespace tessera {
namespace {

// "is a NumPy array"; empty: none of those that begin with something that no text and no tokens do.
std::string known_kind(std::string_view beginning) {
  constexpr std::array<std::pair<std::string_view, const char*>, 10> known = {
      {{"\x93NUMPY", "is a NumPy array"},
       {std::string_view("\x1f\x8b\x08", 3), "is packed by gzip"},
       {"PK\x03\x04", "is a zip archive"},
       {"\x28\xb5\x2f\xfd", "is packed by zstd"},
       {"\xfd\x37zXZ", "is packed by xz"},
       {"PAR1", "is a Parquet table"},
       {"ARROW1", "is an Arrow table"},
       {"SQLite format 3", "is a SQLite database"},
       {"\x89HDF\r\n", "is an HDF5 file"},
       {"GGUF", "is a GGUF model"}}};
  for (const auto& [magic, kind] : known) {
    if (beginning.starts_with(magic)) return kind;
  }
  return begins_as_safetensors(beginning) ? "is a safetensors file" : "";
}

std::string kind_of_binary(std::string_view text) {
  const std::string known = known_kind(text);
  if (!known.empty()) return known;
  return text.find('\0') == text.npos ? "" : "has zero bytes, so it is binary or UTF-16";
}

// Of 256 bytes of tokens some are control characters: with any vocabulary, but for a chance of
// 1e-13.
bool begins_as_text(std::string_view bytes) {
  constexpr std::size_t enough = 256;
  return bytes.size() >= enough && std::none_of(bytes.begin(), bytes.end(), [](char c) {
           const auto byte = static_cast<unsigned char>(c);
           return byte == 0x7F || (byte < ' ' && c != '\t' && c != '\n' && c != '\r');
         });
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

std::string other_than_tokens(std::string_view beginning) {
  const std::string known = known_kind(beginning);
  if (!known.empty()) return known;
  return begins_as_text(beginning) ? "is text" : "";
}

}  // namespace tessera
