// SPDX-License-Identifier: Apache-2.0
#include "engine/text/json_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

std::string place(std::string_view text, std::size_t at) {
  const auto before = text.substr(0, at);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const auto last = before.rfind('\n');
  const auto column = 1 + before.size() - (last == std::string_view::npos ? 0 : last + 1);
  // A text of one line is often a line of a file that has others.
  if (text.find('\n') == std::string_view::npos) return fmt::format("column {}", column);
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

// The first key that an object has twice. A pass of its own: with a callback the parser looks
// through a whole list again behind each object in it.
class RepeatedKey final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool start_object(std::size_t) override { return open_.emplace_back(), true; }
  bool end_object() override { return open_.pop_back(), true; }
  bool key(string_t& key) override {
    if (!open_.back().insert(key).second && !first_) first_ = key;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }
  const std::optional<std::string>& first() const { return first_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> first_;
};

// Behind the text in quotes that begins at `at`.
std::size_t behind_text(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Behind the comment that begins at `at`; `at` itself if none does.
std::size_t behind_comment(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("#") || rest.starts_with("//"))
    return std::min(text.find('\n', at), text.size());
  if (!rest.starts_with("/*")) return at;
  const std::size_t end = text.find("*/", at + 2);
  return end == std::string_view::npos ? text.size() : end + 2;
}

}  // namespace

std::string shown_value(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

std::string in_quotes(std::string_view text) { return shown_value(std::string(text)); }

std::string bare_or_quoted(std::string_view text) {
  const bool plain =
      !text.empty() && text.size() <= 60 && std::all_of(text.begin(), text.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || c == '-' || c == '.';
      });
  return plain ? std::string(text) : in_quotes(text);
}

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
    nlohmann::json json = nlohmann::json::parse(text);
    RepeatedKey repeated;
    nlohmann::json::sax_parse(text, &repeated);
    if (!repeated.first()) return json;
    return Status(Code::invalid_argument,
                  fmt::format("{}: the key {} is twice in one object: leave one out", source,
                              in_quotes(*repeated.first())));
  } catch (const nlohmann::json::parse_error& error) {
    const auto at = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    return Status(Code::invalid_argument,
                  fmt::format("{}: not valid JSON, see {}", source, place(text, at)));
  } catch (const nlohmann::json::exception&) {  // 1e999 is well formed and yet no number
    return Status(Code::invalid_argument,
                  fmt::format("{}: holds a number that is out of range", source));
  }
}

// Spaces instead, so that mistakes are where they were.
Result<nlohmann::json> parse_commented_json(std::string_view text, const std::string& source) {
  std::string plain(text);
  std::size_t comma = std::string::npos;  // that nothing but spaces and comments has followed
  const auto blank = [&](std::size_t first, std::size_t end) {
    for (std::size_t k = first; k < end; ++k) {
      if (plain[k] != '\n') plain[k] = ' ';
    }
  };
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (const std::size_t end = behind_comment(text, at); end > at) {
      blank(at, end);
      at = end;
    } else if (c == '"') {
      comma = std::string::npos;
      at = behind_text(text, at);
    } else {
      const bool closes = c == '}' || c == ']';
      if (closes && comma != std::string::npos) blank(comma, comma + 1);
      if (c == ',') comma = at;
      if (c != ',' && c != ' ' && c != '\t' && c != '\r' && c != '\n') comma = std::string::npos;
      ++at;
    }
  }
  return parse_json(plain, source);
}

// A number of the same length, so that mistakes are where they were.
Result<nlohmann::json> parse_python_json(std::string_view text, const std::string& source) {
  constexpr std::string_view infinity = "Infinity", largest = "1e308   ";
  std::string plain(text);
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = behind_text(text, at);
    } else if (text.substr(at).starts_with(infinity)) {
      plain.replace(at, infinity.size(), largest);
      at += infinity.size();
    } else {
      ++at;
    }
  }
  return parse_json(plain, source);
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

JsonReader::JsonReader(const nlohmann::json& json, std::string source)
    : json_(json), source_(std::move(source)) {
  if (!json.is_object()) {
    status_ = Status(Code::invalid_argument, fmt::format("{}: expected an object {{...}}, found {}",
                                                         source_, shown_value(json)));
  }
}

void JsonReader::fail(const std::string& where, const std::string& what) {
  if (!status_.ok()) return;
  status_ = Status(Code::invalid_argument, where.empty()
                                               ? fmt::format("{}: {}", source_, what)
                                               : fmt::format("{}: {} {}", source_, where, what));
}

const nlohmann::json* JsonReader::find(const char* key) const {
  asked_.insert(key);
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
    fail(key, fmt::format("must be an integer, found {}", shown_value(*value)));
    return least;
  }
  const bool huge =
      value->is_number_unsigned() && value->get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  if (huge || value->get<std::int64_t>() < least || value->get<std::int64_t>() > most) {
    fail(key, fmt::format("must be {} to {}, found {}", least, most, shown_value(*value)));
    return least;
  }
  return value->get<std::int64_t>();
}

double JsonReader::positive(const char* key, double otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number() && value->get<double>() > 0) return value->get<double>();
  fail(key, fmt::format("must be a number above 0, found {}", shown_value(*value)));
  return otherwise;
}

double JsonReader::not_negative(const char* key, double otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number() && value->get<double>() >= 0) return value->get<double>();
  fail(key, fmt::format("must be a number that is not negative, found {}", shown_value(*value)));
  return otherwise;
}

bool JsonReader::boolean(const char* key, bool otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return otherwise && !(null_is_false_ && json_.contains(key));
  if (value->is_boolean()) return value->get<bool>();
  fail(key, fmt::format("must be true or false, found {}", shown_value(*value)));
  return otherwise;
}

std::string JsonReader::text(const char* key, std::optional<std::string> otherwise) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) {
    if (!otherwise) fail(key, "is missing");
    return otherwise.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  fail(key, fmt::format("must be a string, found {}", shown_value(*value)));
  return otherwise.value_or("");
}

DType JsonReader::dtype(std::initializer_list<const char*> keys, DType otherwise) {
  for (const char* key : keys) {
    if (!has(key)) continue;
    const std::string name = text(key);
    if (!status_.ok()) return otherwise;
    if (const auto dtype = parse_dtype(name)) return *dtype;
    fail(key, fmt::format("must be a dtype such as bfloat16, found {}", in_quotes(name)));
  }
  return otherwise;
}

void JsonReader::only(const std::vector<std::string_view>& known) {
  if (!json_.is_object()) return;
  for (const auto& [key, value] : json_.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string_view meant = nearest_word(key, known);
    fail("", fmt::format("unknown key {}{}", in_quotes(key),
                         meant.empty() ? "" : fmt::format(", did you mean \"{}\"?", meant)));
  }
}

}  // namespace tessera
