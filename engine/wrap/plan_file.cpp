// SPDX-License-Identifier: Apache-2.0
// Wrap plans as JSON files.
#include <fmt/format.h>

#include <map>

#include "engine/model/path_pattern.h"
#include "engine/text/json_reader.h"
#include "engine/wrap/plan_text.h"
#include "engine/wrap/unit_overrides.h"
#include "engine/wrap/wrap_plan.h"

namespace tessera {
namespace {

using PlanJson = nlohmann::json;

constexpr std::size_t pattern_max = 4096;  // characters
constexpr std::size_t entries_max = 10'000;
// Modules that all entries together may look at: some seconds' worth.
constexpr std::size_t looks_max = 10'000'000;

// Finds modules many times over.
class NamedModules {
 public:
  explicit NamedModules(const Model& model) : model_(model) {
    for (std::size_t m = 0; m < model.modules.size(); ++m) {
      by_path_.emplace(model.modules[m].path, ModuleId{static_cast<std::int32_t>(m)});
    }
  }
  const Model& model() const { return model_; }
  /// Whether entries have looked at so many modules that the file takes too long.
  bool tired() const { return looks_ > looks_max; }

  /// Looks only at paths that begin as the pattern does before its first *.
  std::vector<ModuleId> matching(const std::string& pattern) const {
    std::vector<ModuleId> found;
    const std::string_view start = std::string_view(pattern).substr(0, pattern.find('*'));
    if (start.size() == pattern.size()) {
      const auto one = by_path_.find(start);
      if (one != by_path_.end()) found.push_back(one->second);
      return found;
    }
    const std::string_view end = std::string_view(pattern).substr(pattern.rfind('*') + 1);
    for (auto at = by_path_.lower_bound(start); at != by_path_.end() && !tired(); ++at) {
      if (!at->first.starts_with(start)) break;
      if (!at->first.ends_with(end)) continue;
      ++looks_;
      if (matches_path(pattern, at->first)) found.push_back(at->second);
    }
    return found;
  }

  const std::vector<ModuleId>& of_class(const std::string& name) const {
    const auto [known, fresh] = by_class_.try_emplace(name);
    for (std::size_t m = 0; fresh && m < model_.modules.size(); ++m) {
      if (!model_.is_a(model_.modules[m], name)) continue;
      known->second.push_back(ModuleId{static_cast<std::int32_t>(m)});
    }
    looks_ += known->second.size();
    return known->second;
  }

 private:
  const Model& model_;
  std::map<std::string_view, ModuleId> by_path_;
  mutable std::map<std::string, std::vector<ModuleId>> by_class_;  // that were asked for
  mutable std::size_t looks_ = 0;
};

// One entry of "units": which modules, and what is set for them.
class PlanEntry {
 public:
  PlanEntry(const PlanJson& json, std::string where) : json_(json), where_(std::move(where)) {}

  Status read() {
    if (!json_.is_object()) return bad("must be an object with \"modules\" or \"class\"");
    for (const auto& [key, value] : json_.items()) {
      if (key == "modules" || key == "class") {
        if (!value.is_string()) return bad(fmt::format("\"{}\" must be a string", key));
        (key == "class" ? by_class_ : by_path_) = value.get<std::string>();
        continue;
      }
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      const Status set = set_override(settings_, key, text);
      if (!set.ok()) return bad(set.message());
      if (value.is_string() && nlohmann::json::accept(text)) {
        return bad(fmt::format("{} must not be in quotes, found {}", key, in_quotes(text)));
      }
    }
    if (by_path_.has_value() == by_class_.has_value()) {
      return bad("give either \"modules\", a path that may have *, or \"class\"");
    }
    if (by_path_ && by_path_->size() > pattern_max) {
      return bad(fmt::format("\"modules\" has {} characters, more than {}", by_path_->size(),
                             pattern_max));
    }
    return check_settings();
  }

  /// "class Linear", "path h.*".
  std::string selector() const {
    return by_path_ ? "path " + in_quotes(*by_path_) : "class " + in_quotes(*by_class_);
  }
  Status said_before(std::size_t entry) const {
    return bad(fmt::format("{} is that of units[{}]: say in one entry what is set for it",
                           selector(), entry));
  }

  // Later entries say more than earlier ones.
  Status add_to(UnitTargets& units, const NamedModules& modules) const {
    const std::vector<ModuleId> found =
        by_path_ ? modules.matching(*by_path_) : modules.of_class(*by_class_);
    if (modules.tired()) {
      return bad(
          fmt::format("the entries up to here look at more than {} modules: name modules "
                      "by fewer patterns and classes",
                      looks_max));
    }
    for (const ModuleId id : found) units[id] = overridden(units[id], settings_);
    if (!found.empty()) return {};
    return bad(fmt::format("{} is no module of {}", selector(), modules.model().name));
  }

 private:
  // In one entry none is later than the other.
  Status check_settings() const {
    const UnitOverrides& s = settings_;
    if (s.reshard_after_forward != false || s.reshard_group.value_or(0) == 0) return {};
    return bad("reshard_after_forward false and reshard_group contradict: leave one out");
  }

  Status bad(const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}: {}", where_, what));
  }

  const PlanJson& json_;
  std::string where_;
  std::optional<std::string> by_path_, by_class_;
  UnitOverrides settings_;
};

Result<std::vector<std::string>> names_in(const PlanJson& json, const char* key,
                                          const std::string& source) {
  std::vector<std::string> names;
  if (!json.contains(key)) return names;
  for (const PlanJson& name : json[key]) {
    if (name.is_string()) names.push_back(name.get<std::string>());
  }
  if (json[key].is_array() && names.size() == json[key].size()) return names;
  return Status(Code::invalid_argument,
                fmt::format("{}: {} must be a list of strings", source, key));
}

}  // namespace

Result<WrapPlan> read_wrap_plan(std::string_view text, const std::string& source,
                                const Model& model) {
  TESSERA_ASSIGN(const PlanJson json, parse_commented_json(text, source));
  if (!json.is_object() || !json.contains("tessera_plan")) {
    return Status(
        Code::invalid_argument,
        fmt::format("{}: a wrap plan is an object that begins with \"tessera_plan\": 1", source));
  }
  JsonReader reader(json, source);
  reader.only({"tessera_plan", "units", "ignored_modules", "ignored_parameters"});
  if (reader.integer("tessera_plan", 1) > 1) reader.fail("tessera_plan", "only 1 is known");
  TESSERA_TRY(reader.status());
  if (!json.contains("units") || !json["units"].is_array()) {
    return Status(Code::invalid_argument, fmt::format("{}: units must be a list", source));
  }
  if (json["units"].size() > entries_max) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: units has {} entries, more than {}: name modules by patterns",
                              source, json["units"].size(), entries_max));
  }
  WrapOptions options{.full_precision_classes = {}};
  TESSERA_ASSIGN(options.ignored_modules, names_in(json, "ignored_modules", source));
  TESSERA_ASSIGN(options.ignored_states, names_in(json, "ignored_parameters", source));
  UnitTargets units;
  const NamedModules modules(model);
  std::map<std::string, std::size_t> entries;  // by selector
  for (std::size_t k = 0; k < json["units"].size(); ++k) {
    PlanEntry entry(json["units"][k], fmt::format("{}: units[{}]", source, k));
    TESSERA_TRY(entry.read());
    const auto [first, fresh] = entries.try_emplace(entry.selector(), k);
    if (!fresh) return entry.said_before(first->second);
    TESSERA_TRY(entry.add_to(units, modules));
  }
  if (const auto root = units.extract(ModuleId{0})) options.root = root.mapped();
  Result<WrapPlan> plan = plan_of_units(model, units, options);
  if (plan.ok()) return plan;
  return Status(plan.status().code(), fmt::format("{}: {}", source, plan.status().message()));
}

std::string to_json(const WrapPlan& plan, const Model& model) {
  nlohmann::ordered_json json = {{"tessera_plan", 1}, {"units", nlohmann::ordered_json::array()}};
  for (const WrapUnit& unit : plan.units) {
    nlohmann::ordered_json entry = {{"modules", model.module(unit.module).path}};
    for (const auto& [name, value] : overrides_as_text(unit.overrides)) {
      // Booleans and numbers as such, names of dtypes as strings.
      const auto parsed = PlanJson::parse(value, nullptr, /*allow_exceptions=*/false);
      const std::string key(name);
      if (parsed.is_discarded()) {
        entry[key] = value;
      } else {
        entry[key] = parsed;
      }
    }
    json["units"].push_back(std::move(entry));
  }
  for (const ParameterId id : plan.ignored) {
    json["ignored_parameters"].push_back(model.parameter(id).name);
  }
  return json.dump(2) + "\n";
}

}  // namespace tessera
