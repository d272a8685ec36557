// SPDX-License-Identifier: Apache-2.0
// Keys of other families: transformers ignores them, so none of them acts, and each is named.
#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <sstream>

#include "engine/architectures/config_keys.h"
#include "engine/architectures/number_keys.h"
#include "tessera/model.h"
#include "tests/model/default_configs.h"

namespace tessera {
namespace {

using test::Json;
using test::small;

struct Classes {
  std::vector<Json> configs;
  Json aliases;
  Json values;  // one of each key of all
};

Classes all_classes() {
  const Json all = test::recorded_defaults();
  Classes out{all["configs"], all["aliases"], Json::object()};
  for (const Json& config : out.configs) {
    for (const auto& [key, value] : config.items()) {
      if (!value.is_null() && !out.values.contains(key)) out.values[key] = value;
    }
  }
  return out;
}

bool has_key(const Json& config, const Json& aliases, const std::string& key) {
  const Json& others = aliases[config["model_type"].get<std::string>()];
  return config.contains(key) || std::find(others.begin(), others.end(), key) != others.end();
}

// What older versions wrote into the files of any family, or what nobody computes with.
bool of_all(const std::string& key, const std::string& type) {
  const NumberKey* const number = number_key(key);
  return key.ends_with("_token_id") || (number != nullptr && number->families.empty()) ||
         in_table(key, type) || without_influence_on_costs(key);
}

std::set<std::string> words_of_warnings(const Model& model) {
  std::set<std::string> out;
  for (const std::string& warning : model.warnings) {
    std::istringstream words(warning);
    for (std::string word; words >> word;) {
      out.insert(word.ends_with(',') ? word.substr(0, word.size() - 1) : word);
    }
  }
  return out;
}

// Those of `keys` that pass without a word; several at once, as most are named.
std::vector<std::string> silent(const Json& config, const Json& values,
                                std::span<const std::string> keys) {
  Json with = config;
  for (const std::string& key : keys) with[key] = values[key];
  const auto model = parse_model(with.dump(), "config.json");
  if (model.ok()) {
    const auto named = words_of_warnings(*model);
    std::vector<std::string> out;
    std::copy_if(keys.begin(), keys.end(), std::back_inserter(out),
                 [&](const std::string& key) { return !named.contains(key); });
    return out;
  }
  if (keys.size() == 1) return {};
  std::vector<std::string> out = silent(config, values, keys.first(keys.size() / 2));
  const auto second = silent(config, values, keys.subspan(keys.size() / 2));
  out.insert(out.end(), second.begin(), second.end());
  return out;
}

TEST_CASE("a key that only other families have is named or refused", "[model][errors]") {
  const Classes classes = all_classes();
  for (const Json& full : classes.configs) {
    const Json config = small(full);
    const auto type = config["model_type"].get<std::string>();
    std::vector<std::string> foreign;
    for (const auto& [key, value] : classes.values.items()) {
      if (!has_key(full, classes.aliases, key) && !of_all(key, type)) foreign.push_back(key);
    }
    std::string passed;
    for (std::size_t at = 0; at < foreign.size(); at += 16) {
      const auto part =
          std::span(foreign).subspan(at, std::min<std::size_t>(16, foreign.size() - at));
      for (const std::string& key : silent(config, classes.values, part)) passed += " " + key;
    }
    INFO(type);
    CHECK(passed == "");
  }
}

}  // namespace
}  // namespace tessera
