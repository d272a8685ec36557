// SPDX-License-Identifier: Apache-2.0
#include "engine/model/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

std::string place(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const auto column = 1 + before.size() - (last == std::string_view::npos ? 0 : last + 1);
  return fmt::format("line {} column {}", line, column);
}

// Where brackets nest deeper than any description needs. Printing or copying such a value would
// exhaust the stack.
std::optional<std::size_t> too_deep(std::string_view text) {
  constexpr int depth_max = 500;
  int depth = 0;
  bool in_text = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (in_text) {
      if (c == '\\') ++at;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '[' || c == '{') {
      if (++depth > depth_max) return at;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return {};
}

}  // namespace

std::string quoted(std::string_view text) { return shown(std::string(text)); }

Result<nlohmann::json> parse_json(std::string_view text, const std::string& source) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: the file is empty, expected JSON", source));
  }
  if (const auto at = too_deep(text)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: is nested too deep, see {}", source, place(text, *at)));
  }
  // The only way to learn where a mistake is; nothing is thrown past this function.
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    const auto at = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    return Status(Code::invalid_argument,
                  fmt::format("{}: not valid JSON, see {}", source, place(text, at)));
  } catch (const nlohmann::json::exception&) {  // 1e999 is well formed and yet no number
    return Status(Code::invalid_argument,
                  fmt::format("{}: holds a number that is out of range", source));
  }
}

std::optional<DType> parse_dtype(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  for (DType dtype : {DType::float32, DType::bfloat16, DType::float16, DType::float64, DType::int32,
                      DType::int64, DType::uint8}) {
    if (name == name_of(dtype)) return dtype;
  }
  if (name == "float") return DType::float32;
  if (name == "half") return DType::float16;
  return {};
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& known) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::string_view candidate : known) {
    const auto [shorter, longer] = std::minmax(word.size(), candidate.size());
    if (longer - shorter >= best_distance) continue;
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

JsonReader::JsonReader(const nlohmann::json& json, std::string source)
    : json_(json), source_(std::move(source)) {
  if (!json.is_object()) {
    status_ = Status(Code::invalid_argument,
                     fmt::format("{}: expected an object {{...}}, found {}", source_, shown(json)));
  }
}

void JsonReader::fail(const std::string& where, const std::string& what) {
  if (!status_.ok()) return;
  status_ = Status(Code::invalid_argument, where.empty()
                                               ? fmt::format("{}: {}", source_, what)
                                               : fmt::format("{}: {} {}", source_, where, what));
}

const nlohmann::json* JsonReader::find(const char* key) const {
  if (!json_.is_object()) return nullptr;
  const auto it = json_.find(key);
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

bool JsonReader::has(const char* key) const { return find(key) != nullptr; }

std::int64_t JsonReader::integer(const char* key, std::int64_t least,
                                 std::optional<std::int64_t> otherwise) {
  constexpr std::int64_t most = std::int64_t{1} << 40;  // no dimension of a model comes near
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (!otherwise) fail(key, "is missing");
    return otherwise.value_or(least);
  }
  if (!value->is_number_integer()) {
    fail(key, fmt::format("must be an integer, found {}", shown(*value)));
    return least;
  }
  const bool huge =
      value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (huge || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    fail(key, fmt::format("must be {} to {}, found {}", least, most, shown(*value)));
    return least;
  }
  return value->get<std::int64_t>();
}

bool JsonReader::boolean(const char* key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  fail(key, fmt::format("must be true or false, found {}", shown(*value)));
  return otherwise;
}

std::string JsonReader::text(const char* key, std::optional<std::string> otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (!otherwise) fail(key, "is missing");
    return otherwise.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  fail(key, fmt::format("must be a string, found {}", shown(*value)));
  return otherwise.value_or("");
}

DType JsonReader::dtype(std::initializer_list<const char*> keys, DType otherwise) {
  for (const char* key : keys) {
    if (!has(key)) continue;
    const std::string name = text(key);
    if (!status_.ok()) return otherwise;
    if (const auto dtype = parse_dtype(name)) return *dtype;
    fail(key, fmt::format("must be a dtype such as bfloat16, found {}", quoted(name)));
  }
  return otherwise;
}

void JsonReader::only(const std::vector<std::string_view>& known) {
  if (!json_.is_object()) return;
  for (const auto& [key, value] : json_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view meant = nearest(key, known);
    fail("", fmt::format("unknown key {}{}", quoted(key),
                         meant.empty() ? "" : fmt::format(", did you mean \"{}\"?", meant)));
  }
}

}  // namespace tessera
