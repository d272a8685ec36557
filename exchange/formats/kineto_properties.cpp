// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/kineto_properties.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "exchange/parse/json_cursor.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t ranks_listed_max = 1 << 20;

std::int64_t integer_of(const nlohmann::json& json, const char* key) {
  if (!json.is_object() || !json.contains(key)) return -1;
  const nlohmann::json& value = json[key];
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value.is_string()) return decimal(value.get_ref<const std::string&>(), 0);
  return -1;
}

std::string text_of(const nlohmann::json& json, const char* key) {
  if (!json.is_object() || !json.contains(key)) return {};
  return json[key].is_string() ? json[key].get<std::string>() : json[key].dump();
}

}  // namespace

std::vector<Rank> ranks_in(std::string_view list) {
  std::vector<Rank> ranks;
  std::int64_t number = -1;
  for (const char c : list) {
    if (c >= '0' && c <= '9') {
      number = std::min<std::int64_t>(std::max<std::int64_t>(number, 0) * 10 + (c - '0'), 1 << 30);
      continue;
    }
    if (c == '.') return {};  // "[0, 1, ..., 63]": shortened by the profiler
    if (number >= 0 && static_cast<std::int64_t>(ranks.size()) < ranks_listed_max) {
      ranks.push_back(static_cast<Rank>(number));
    }
    number = -1;
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void read_distributed(const nlohmann::json& info, KinetoFile& file) {
  constexpr std::int64_t most = 1 << 30;
  file.rank = static_cast<Rank>(std::clamp<std::int64_t>(integer_of(info, "rank"), -1, most));
  file.world =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(integer_of(info, "world_size"), 0, most));
  file.backend = text_of(info, "backend");
  if (!info.is_object() || !info.contains("pg_config") || !info["pg_config"].is_array()) return;
  for (const auto& group : info["pg_config"]) {
    KinetoGroup& added = file.groups.emplace_back();
    added.name = text_of(group, "pg_name");
    added.description = text_of(group, "pg_desc");
    added.size =
        static_cast<std::int32_t>(std::clamp<std::int64_t>(integer_of(group, "pg_size"), 0, most));
    if (group.is_object() && group.contains("ranks")) added.ranks = ranks_in(group["ranks"].dump());
  }
}

void read_devices(const nlohmann::json& devices, KinetoFile& file) {
  if (!devices.is_array() || devices.empty() || !devices[0].is_object()) return;
  file.device = text_of(devices[0], "name");
  file.device_memory = Bytes{std::max<std::int64_t>(0, integer_of(devices[0], "totalGlobalMem"))};
}

}  // namespace tessera::exchange
