// SPDX-License-Identifier: Apache-2.0
#include "engine/text/option_json.h"

#include <limits>
#include <string>
#include <vector>

namespace tessera {

nlohmann::ordered_json option_json(const OptionValue& value) {
  return std::visit([](const auto& v) { return nlohmann::ordered_json(v); }, value);
}

std::optional<OptionValue> option_value(const nlohmann::json& json) {
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) {
    const auto number = json.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return {};
  }
  if (json.is_number_integer()) return json.get<std::int64_t>();
  if (json.is_number_float()) return json.get<double>();
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) return {};
  std::vector<std::string> list;
  for (const nlohmann::json& entry : json) {
    if (!entry.is_string()) return {};
    list.push_back(entry.get<std::string>());
  }
  return list;
}

}  // namespace tessera
