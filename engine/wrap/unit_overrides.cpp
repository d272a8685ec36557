// SPDX-License-Identifier: Apache-2.0
#include "engine/wrap/unit_overrides.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <variant>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"

namespace tessera {
namespace {

struct OverrideName {
  std::string_view name;
  std::variant<std::optional<bool> UnitOverrides::*, std::optional<DType> UnitOverrides::*,
               std::optional<Index> UnitOverrides::*>
      member;
};
const OverrideName override_names[] = {
    {"mixed_precision", &UnitOverrides::mixed_precision},
    {"reshard_after_forward", &UnitOverrides::reshard_after_forward},
    {"offload_params", &UnitOverrides::offload_params},
    {"param_dtype", &UnitOverrides::param_dtype},
    {"reduce_dtype", &UnitOverrides::reduce_dtype},
    {"shard_group", &UnitOverrides::shard_group},
    {"reshard_group", &UnitOverrides::reshard_group}};

std::string override_text(bool value) { return value ? "true" : "false"; }
std::string override_text(DType value) { return std::string(name_of(value)); }
std::string override_text(Index value) { return std::to_string(value); }

Status read_override(std::string_view text, std::optional<bool>& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return {};
  }
  return Status(Code::invalid_argument, "true or false");
}

Status read_override(std::string_view text, std::optional<DType>& value) {
  value = parse_dtype(text);
  if (value && is_floating(*value)) return {};
  return Status(Code::invalid_argument, "float32, bfloat16, float16 or float64");
}

Status read_override(std::string_view text, std::optional<Index>& value) {
  Index number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec == std::errc() && read.ptr == end && number >= 0) {
    value = number;
    return {};
  }
  return Status(Code::invalid_argument, "a number of ranks, 0 or more");
}

}  // namespace

std::vector<std::pair<std::string_view, std::string>> overrides_as_text(
    const UnitOverrides& overrides) {
  std::vector<std::pair<std::string_view, std::string>> out;
  for (const OverrideName& known : override_names) {
    std::visit(
        [&](auto member) {
          if (overrides.*member) out.emplace_back(known.name, override_text(*(overrides.*member)));
        },
        known.member);
  }
  return out;
}

Status set_override(UnitOverrides& overrides, std::string_view name, std::string_view value) {
  std::vector<std::string_view> names;
  for (const OverrideName& known : override_names) {
    names.push_back(known.name);
    if (known.name != name) continue;
    const Status read = std::visit(
        [&](auto member) { return read_override(value, overrides.*member); }, known.member);
    if (read.ok()) return {};
    return Status(Code::invalid_argument,
                  fmt::format("{} must be {}, found {}", name, read.message(), in_quotes(value)));
  }
  return Status(Code::invalid_argument,
                fmt::format("{} is no setting of a unit{}; there are {}", in_quotes(name),
                            did_you_mean(name, names), fmt::join(names, ", ")));
}

}  // namespace tessera
