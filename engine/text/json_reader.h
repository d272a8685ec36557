// SPDX-License-Identifier: Apache-2.0
// Typed access to JSON that people wrote: every error names file and key.
//
// The idea: a reader remembers where it is ("config.json: root.modules[2].shape") and collects the
// first error, so that builders read straight on and ask once.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

/// Parses `text`. Fails: invalid_argument, with `source` and the place of the mistake; also if an
/// object has a key twice, naming it.
Result<nlohmann::json> parse_json(std::string_view text, const std::string& source);

/// As parse_json, of text as people write it by hand: with comments (# and // to the end of a line,
/// /* */) and commas behind the last entry.
Result<nlohmann::json> parse_commented_json(std::string_view text, const std::string& source);

/// As parse_json, of what Python's json writes: Infinity, a limit that nothing reaches, is 1e308.
Result<nlohmann::json> parse_python_json(std::string_view text, const std::string& source);

/// `text` in quotes, escaped and shortened: one line whatever it holds.
std::string in_quotes(std::string_view text);

/// The same, and without quotes where it is a plain word, as nearly always.
std::string bare_or_quoted(std::string_view text);

/// `value` as a message shows it: one line, shortened.
std::string shown_value(const nlohmann::json& value);

/// The dtype called "float32", "torch.bfloat16", ...; nothing for other names.
std::optional<DType> parse_dtype(std::string_view name);

constexpr bool is_floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16 ||
         dtype == DType::float64;
}

class JsonReader {
 public:
  /// `json` must outlive the reader.
  JsonReader(const nlohmann::json& json, std::string source);

  /// The value of a key; null counts as missing. A missing value is `otherwise` if that is given
  /// and an error if not. After an error these return defaults.
  std::int64_t integer(const char* key, std::int64_t least,
                       std::optional<std::int64_t> otherwise = {});
  /// A number above 0; any other is an error.
  double positive(const char* key, double otherwise);
  /// As positive, or 0.
  double not_negative(const char* key, double otherwise);
  bool boolean(const char* key, bool otherwise);
  /// From now on a boolean that is null is false, as Python takes it, and not missing.
  void take_null_as_false() { null_is_false_ = true; }
  std::string text(const char* key, std::optional<std::string> otherwise = {});
  DType dtype(std::initializer_list<const char*> keys, DType otherwise);
  bool has(const char* key) const;
  /// Makes every key that is not in `known` an error.
  void only(const std::vector<std::string_view>& known);

  void fail(const std::string& where, const std::string& what);
  /// Takes over the first error of `other`, which reads a part of this.
  void adopt(const JsonReader& other) {
    if (status_.ok()) status_ = other.status_;
  }
  /// The keys that any of these was asked for.
  const std::set<std::string>& asked() const { return asked_; }
  Status status() const { return status_; }
  const nlohmann::json& json() const { return json_; }
  const std::string& source() const { return source_; }

 private:
  const nlohmann::json* find(const char* key) const;

  const nlohmann::json& json_;
  std::string source_;
  Status status_;
  bool null_is_false_ = false;
  mutable std::set<std::string> asked_;
};

}  // namespace tessera
