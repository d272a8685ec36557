// SPDX-License-Identifier: Apache-2.0
// Schemes by name and a JSON object of options, named as options_of (tessera/scheme.h) does.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "c/handles.h"
#include "engine/text/json_reader.h"
#include "engine/text/option_json.h"
#include "tessera/deepspeed.h"

namespace tessera::c {
namespace {

Status read_options(const nlohmann::json& json, const std::string& source, Scheme& scheme) {
  JsonReader reader(json, source);
  const std::vector<Option> known = options_known_to(name_of(scheme));
  std::vector<std::string_view> names;
  for (const Option& option : known) names.push_back(option.name);
  reader.only(names);
  TESSERA_TRY(reader.status());
  std::vector<std::string> given;
  for (const Option& option : known) {
    if (!reader.has(option.name.c_str())) continue;
    const std::optional<OptionValue> value = option_value(json.at(option.name));
    if (!value) {
      reader.fail(option.name, option.kind == OptionKind::list ? "must be a list of strings"
                                                               : "must be one value");
      return reader.status();
    }
    const Status set = set_option(scheme, option.name, *value);
    if (!set.ok()) return Status(set.code(), fmt::format("{}: {}", source, set.message()));
    given.push_back(option.name);
  }
  const Status needs = check_needs(scheme, given, OptionSpelling::names);
  return needs.ok() ? needs : Status(needs.code(), fmt::format("{}: {}", source, needs.message()));
}

}  // namespace

Result<Scheme> scheme_of(const std::string& name, const char* options, Rank ranks) {
  const std::string text = options == nullptr ? "{}" : options;
  const std::string source = "options of " + name;
  if (name == "deepspeed") {
    TESSERA_ASSIGN(const DeepSpeedConfig config, parse_deepspeed_config(text, source, ranks));
    return config.scheme;
  }
  TESSERA_ASSIGN(const nlohmann::json json, parse_json(text, source));
  Result<Scheme> scheme = scheme_named(name);
  if (!scheme.ok()) {
    return Status(Code::invalid_argument,
                  fmt::format("scheme {}: must be {} or deepspeed", in_quotes(name),
                              fmt::join(scheme_names(), ", ")));
  }
  TESSERA_TRY(read_options(json, source, *scheme));
  return scheme;
}

}  // namespace tessera::c
