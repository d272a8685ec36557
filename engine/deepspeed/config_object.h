// SPDX-License-Identifier: Apache-2.0
// One object of a DeepSpeed configuration, read key by key.
//
// The idea: the keys that the code asks for act, so no key is listed twice; at the end `finish`
// says of every other one what known_keys.h says, or that DeepSpeed has no such key. "auto" counts
// as not given, and so does null where DeepSpeed takes it.
//
//   ConfigObject zero = root.object("zero_optimization");
//   auto stage = zero.integer({"stage"}, 0, 3);
//   zero.finish(UnknownKeys::refused);
#pragma once

#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/deepspeed/known_keys.h"
#include "tessera/option.h"
#include "tessera/status.h"

namespace tessera {

/// The errors and unused keys that reading a file has found so far. The first error is kept. Lists
/// as in DeepSpeedConfig.
struct ConfigFindings {
  std::string source;
  Status status;
  std::vector<std::string> without_meaning, numbers_differ, cost_differs, unknown;

  void fail(const std::string& where, const std::string& what);
};

/// DeepSpeed refuses unknown keys in sections that are classes, and does not see those in others.
enum class UnknownKeys { refused, listed };

class ConfigObject {
 public:
  using Keys = std::initializer_list<std::string_view>;  // a key and its aliases

  /// `json` may be null, which means an object without keys. Both references must outlive this.
  ConfigObject(const nlohmann::json* json, std::string path, ConfigFindings& findings);

  std::optional<std::int64_t> integer(Keys keys, std::int64_t least = 0,
                                      std::int64_t most = std::numeric_limits<std::int64_t>::max());
  std::optional<double> number(Keys keys, double least, double most);
  std::optional<bool> boolean(Keys keys);
  std::optional<std::string> text(Keys keys);
  /// The place of the value among `choices`.
  std::optional<std::size_t> choice(Keys keys, std::span<const std::string> choices);
  /// The file's value for an option, from the one of its keys below `section` ("offload_param."
  /// or ""); nothing if it is not given or was refused. REQUIRES: `option` outlives this.
  std::optional<OptionValue> option(const Option& option, std::string_view section);
  ConfigObject object(std::string_view key) { return object(key, value({key})); }
  ConfigObject object(std::string_view key, const nlohmann::json* json) const {
    return {json, full(key), findings_};
  }
  /// The value itself, of any type; nullptr if it is not given.
  const nlohmann::json* value(Keys keys);

  /// Known to DeepSpeed, and changes nothing here; said if it is given, perhaps with the reason.
  void without_meaning(Keys keys, std::string_view why = "");
  /// As above, for the keys of an option.
  void without_meaning(const Option& option, std::string_view why = "");
  /// Would have changed what the run costs; said if it is given, with what is done instead.
  void cost_differs(std::string_view key, std::string_view why);
  /// Would have changed what training computes; said with what known_keys.h has to say.
  void numbers_differ(std::string_view key);
  /// Says of keys that nobody asked for what is known of them.
  void finish(UnknownKeys unknown);

  bool given() const { return json_ != nullptr; }
  void fail(std::string_view key, const std::string& what) { findings_.fail(full(key), what); }
  std::string full(std::string_view key) const;

 private:
  // The key of an alias list that the file has: the first if several agree, an error if they
  // differ.
  struct Found {
    std::string_view key;
    const nlohmann::json* value = nullptr;
  };
  Found find(std::span<const std::string_view> keys);
  Found find(Keys keys) { return find(std::span(keys.begin(), keys.size())); }

  void check_null(std::string_view key);
  void report(const KnownKey& row, const std::string& key, const nlohmann::json& value);

  std::optional<std::int64_t> integer(const Found& found, std::int64_t least, std::int64_t most);
  std::optional<double> number(const Found& found, double least, double most);
  std::optional<bool> boolean(const Found& found);
  std::optional<std::string> text(const Found& found);
  std::optional<std::size_t> choice(const Found& found, std::span<const std::string> choices);

  const nlohmann::json* json_;
  std::string path_;
  ConfigFindings& findings_;
  std::vector<std::string_view> asked_;
  std::vector<std::string_view> known_;  // and those of the table, for "did you mean"
};

}  // namespace tessera
