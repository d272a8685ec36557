// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/object_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/text/nearest_word.h"

namespace tessera::sim {
namespace {

using Json = nlohmann::json;

std::string hint(std::string_view word, std::initializer_list<const char*> known) {
  const std::string_view meant = nearest_word(word, {known.begin(), known.end()});
  return meant.empty() ? fmt::format("the keys are {}", fmt::join(known, ", "))
                       : fmt::format("did you mean '{}'?", meant);
}

}  // namespace

ObjectReader::ObjectReader(const Json& json, std::string where,
                           std::initializer_list<const char*> known, Status& status)
    : json_(json), where_(std::move(where)), status_(status) {
  if (!json_.is_object()) {
    fail("", "must be an object {...}");
    return;
  }
  for (const auto& [key, value] : json_.items()) {
    const auto same = [&key = key](const char* other) { return key == other; };
    if (std::none_of(known.begin(), known.end(), same)) {
      fail(key, "is unknown: " + hint(key, known));
    }
  }
}

double ObjectReader::number(const char* key, double least, double most) {
  const bool given = json_.is_object() && json_.contains(key);
  if (!given || !json_[key].is_number()) {
    fail(key, given ? "must be a number" : "is missing");
    return least;
  }
  const double value = json_[key].get<double>();
  if (value >= least && value <= most) return value;
  fail(key, fmt::format("must be {:g} to {:g}, found {:g}", least, most, value));
  return least;
}

std::int64_t ObjectReader::integer(const char* key, double least, double most) {
  const double value = number(key, least, most);
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) != value) {
    fail(key, fmt::format("must be a whole number, found {:g}", value));
  }
  return whole;
}

std::string ObjectReader::text(const char* key) {
  const bool given = json_.is_object() && json_.contains(key);
  if (given && json_[key].is_string()) return json_[key].get<std::string>();
  fail(key, given ? "must be a string" : "is missing");
  return "";
}

bool ObjectReader::flag(const char* key) {
  const bool given = json_.is_object() && json_.contains(key);
  if (given && json_[key].is_boolean()) return json_[key].get<bool>();
  fail(key, given ? "must be true or false" : "is missing");
  return false;
}

const Json& ObjectReader::object(const char* key) {
  static const Json none;
  if (json_.is_object() && json_.contains(key)) return json_[key];
  fail(key, "is missing");
  return none;
}

const Json& ObjectReader::table(const char* key) {
  static const Json empty = Json::object();
  const Json& found = object(key);
  if (found.is_object()) return found;
  fail(key, "must be an object");
  return empty;
}

void ObjectReader::fail(const std::string& key, const std::string& what) {
  if (!status_.ok()) return;
  std::string where = where_ + key;
  if (where.ends_with('.') || where.ends_with(' ')) where.pop_back();  // the object itself
  status_ = Status(Code::invalid_argument, fmt::format("{} {}", where, what));
}

}  // namespace tessera::sim
