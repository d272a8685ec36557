// SPDX-License-Identifier: Apache-2.0
#include "engine/deepspeed/config_object.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"
#include "tessera/assert.h"

namespace tessera {
namespace {

std::string shown(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 37) + "..." : text;
}

// 5e8 is how DeepSpeed's own examples write whole numbers.
std::optional<std::int64_t> whole(const nlohmann::json& value) {
  constexpr double most = 9.2e18;
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return {};
    return static_cast<std::int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return {};
  const double number = value.get<double>();
  if (!(std::fabs(number) < most) || std::floor(number) != number) return {};
  return static_cast<std::int64_t>(number);
}

std::string with(const std::string& key, std::string_view why) {
  return why.empty() ? key : fmt::format("{} ({})", key, why);
}

}  // namespace

void ConfigFindings::fail(const std::string& where, const std::string& what) {
  if (!status.ok()) return;
  status = Status(Code::invalid_argument, fmt::format("{}: {} {}", source, where, what));
}

ConfigObject::ConfigObject(const nlohmann::json* json, std::string path, ConfigFindings& findings)
    : json_(json), path_(std::move(path)), findings_(findings) {
  if (json_ == nullptr || json_->is_object()) return;
  findings_.fail(path_.empty() ? "the file" : path_,
                 fmt::format("must be an object {{...}}, found {}", shown(*json_)));
  json_ = nullptr;
}

std::string ConfigObject::full(std::string_view key) const {
  return path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
}

ConfigObject::Found ConfigObject::find(std::span<const std::string_view> keys) {
  Found found;
  for (const std::string_view key : keys) {
    asked_.push_back(key);
    known_.push_back(key);
    if (json_ == nullptr) continue;
    const auto it = json_->find(std::string(key));
    if (it != json_->end() && it->is_null()) check_null(key);
    if (it == json_->end() || it->is_null() || *it == "auto") continue;
    if (found.value == nullptr) {
      found = {key, &*it};
    } else if (*found.value != *it) {
      fail(key, fmt::format("is {} but {} is {}: they mean the same, leave one out", shown(*it),
                            full(found.key), shown(*found.value)));
    }
  }
  return found;
}

std::optional<std::int64_t> ConfigObject::integer(const Found& found, std::int64_t least,
                                                  std::int64_t most) {
  if (found.value == nullptr) return {};
  const auto number = whole(*found.value);
  if (number && *number >= least && *number <= most) return number;
  const bool open = most == std::numeric_limits<std::int64_t>::max();
  const std::string range =
      open ? fmt::format("of at least {}", least) : fmt::format("of {} to {}", least, most);
  fail(found.key, fmt::format("must be a whole number {}, found {}", range, shown(*found.value)));
  return {};
}

std::optional<double> ConfigObject::number(const Found& found, double least, double most) {
  if (found.value == nullptr) return {};
  if (found.value->is_number()) {
    const double number = found.value->get<double>();
    if (number >= least && number <= most) return number;
  }
  fail(found.key,
       fmt::format("must be a number of {} to {}, found {}", least, most, shown(*found.value)));
  return {};
}

std::optional<bool> ConfigObject::boolean(const Found& found) {
  if (found.value == nullptr) return {};
  if (found.value->is_boolean()) return found.value->get<bool>();
  fail(found.key, fmt::format("must be true or false, found {}", shown(*found.value)));
  return {};
}

std::optional<std::string> ConfigObject::text(const Found& found) {
  if (found.value == nullptr) return {};
  if (found.value->is_string()) return found.value->get<std::string>();
  fail(found.key, fmt::format("must be a string, found {}", shown(*found.value)));
  return {};
}

std::optional<std::size_t> ConfigObject::choice(const Found& found,
                                                std::span<const std::string> choices) {
  if (found.value == nullptr) return {};
  if (found.value->is_string()) {
    const auto place =
        std::find(choices.begin(), choices.end(), found.value->get_ref<const std::string&>());
    if (place != choices.end()) return static_cast<std::size_t>(place - choices.begin());
  }
  fail(found.key,
       fmt::format("must be one of {}, found {}", fmt::join(choices, ", "), shown(*found.value)));
  return {};
}

std::optional<std::int64_t> ConfigObject::integer(Keys keys, std::int64_t least,
                                                  std::int64_t most) {
  return integer(find(keys), least, most);
}

std::optional<double> ConfigObject::number(Keys keys, double least, double most) {
  return number(find(keys), least, most);
}

std::optional<bool> ConfigObject::boolean(Keys keys) { return boolean(find(keys)); }

std::optional<std::string> ConfigObject::text(Keys keys) { return text(find(keys)); }

std::optional<std::size_t> ConfigObject::choice(Keys keys, std::span<const std::string> choices) {
  return choice(find(keys), choices);
}

std::optional<OptionValue> ConfigObject::option(const Option& option, std::string_view section) {
  std::vector<std::string_view> keys;
  for (std::string_view key : option.deepspeed) {
    if (!key.starts_with(section)) continue;
    key.remove_prefix(section.size());
    if (key.find('.') == std::string_view::npos) keys.push_back(key);
  }
  const Found found = find(keys);
  if (found.value == nullptr) return {};
  const auto most = option.most < 9.2e18 ? static_cast<std::int64_t>(option.most)
                                         : std::numeric_limits<std::int64_t>::max();
  switch (option.kind) {
    case OptionKind::flag: return boolean(found);
    case OptionKind::integer: return integer(found, static_cast<std::int64_t>(option.least), most);
    case OptionKind::number: return number(found, option.least, option.most);
    case OptionKind::text: return text(found);
    case OptionKind::word:
      if (const auto place = choice(found, option.words)) return option.words[*place];
      return {};
    case OptionKind::list: break;
  }
  TESSERA_ASSERT(false, "no key of DeepSpeed is a list");
  return {};
}

const nlohmann::json* ConfigObject::value(Keys keys) { return find(keys).value; }

void ConfigObject::without_meaning(Keys keys, std::string_view why) {
  for (const std::string_view key : keys) {
    if (find({key}).value != nullptr) findings_.without_meaning.push_back(with(full(key), why));
  }
}

void ConfigObject::without_meaning(const Option& option, std::string_view why) {
  for (const std::string_view key : option.deepspeed) {
    if (key.find('.') == std::string_view::npos) without_meaning({key}, why);
  }
}

void ConfigObject::cost_differs(std::string_view key, std::string_view why) {
  if (find({key}).value != nullptr) findings_.cost_differs.push_back(with(full(key), why));
}

void ConfigObject::numbers_differ(std::string_view key) {
  const KnownKey* const row = known_key(full(key));
  TESSERA_ASSERT(row != nullptr, "the table says why");
  findings_.numbers_differ.push_back(with(full(key), row->why));
}

void ConfigObject::report(const KnownKey& row, const std::string& key,
                          const nlohmann::json& value) {
  if (row.effect == KeyEffect::section) {
    object(key, &value).finish(UnknownKeys::refused);
    return;
  }
  if (is_off(row, value)) {
    findings_.without_meaning.push_back(full(key));
    return;
  }
  const std::string said = with(full(key), row.why);
  switch (row.effect) {
    case KeyEffect::none: findings_.without_meaning.push_back(said); break;
    case KeyEffect::numbers: findings_.numbers_differ.push_back(said); break;
    case KeyEffect::cost: findings_.cost_differs.push_back(said); break;
    case KeyEffect::refused:
      fail(key, fmt::format("is not supported: {}; take it out", row.why));
      break;
    case KeyEffect::section: break;
  }
}

void ConfigObject::check_null(std::string_view key) {
  if (takes_null(full(key))) return;
  fail(key, "is null, which DeepSpeed does not take: give a value, or leave it out");
}

void ConfigObject::finish(UnknownKeys unknown) {
  if (json_ == nullptr) return;
  for (const KnownKey& row : known_keys()) {
    const std::string prefix = path_.empty() ? "" : path_ + ".";
    if (!row.path.starts_with(prefix)) continue;
    const std::string_view key = row.path.substr(prefix.size());
    if (key.find('.') == std::string_view::npos) known_.push_back(key);
  }
  for (const auto& [key, value] : json_->items()) {
    const std::string path = full(key);
    const bool asked = std::find(asked_.begin(), asked_.end(), key) != asked_.end();
    if (value.is_null() && (asked || known_key(path) != nullptr)) {
      check_null(key);
      findings_.without_meaning.push_back(with(path, "null counts as not given"));
    }
    if (asked) continue;
    const std::string said = full(bare_or_quoted(key));  // nobody knows what is in it
    if (const KnownKey* const row = known_key(path)) {
      if (!value.is_null() && value != "auto") report(*row, key, value);
    } else if (unknown == UnknownKeys::listed) {
      const std::string near = did_you_mean(key, known_);
      findings_.unknown.push_back(near.empty() ? said
                                               : fmt::format("{} ({})", said, near.substr(2)));
    } else {
      findings_.fail(said, fmt::format("is no key of DeepSpeed{}", did_you_mean(key, known_)));
    }
  }
}

}  // namespace tessera
