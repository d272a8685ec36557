// SPDX-License-Identifier: Apache-2.0
#include "engine/wrap/plan_text.h"

#include <fmt/format.h>

#include "engine/wrap/unit_overrides.h"

namespace tessera {
namespace {

constexpr std::string_view root_name = "(root)";

struct UnitLine {
  std::string path;
  UnitOverrides overrides;
};

Result<UnitLine> parse_line(const std::string& line) {
  UnitLine unit;
  std::size_t at = line.find(' ');
  unit.path = line.substr(0, at);
  if (unit.path == root_name) unit.path.clear();
  while (at != std::string::npos) {
    const std::size_t end = line.find(' ', at + 1);
    const std::string word = line.substr(at + 1, end == std::string::npos ? end : end - at - 1);
    const std::size_t equals = word.find('=');
    const std::string value = equals == std::string::npos ? "" : word.substr(equals + 1);
    if (const Status read = set_override(unit.overrides, word.substr(0, equals), value);
        !read.ok()) {
      return Status(read.code(), fmt::format("the plan's line '{}': {}", line, read.message()));
    }
    at = end;
  }
  return unit;
}

}  // namespace

PlanText to_text(const WrapPlan& plan, const Model& model) {
  PlanText text;
  for (const WrapUnit& unit : plan.units) {
    const std::string& path = model.module(unit.module).path;
    std::string line = path.empty() ? std::string(root_name) : path;
    for (const auto& [name, value] : overrides_as_text(unit.overrides)) {
      line += fmt::format(" {}={}", name, value);
    }
    text.units.push_back(std::move(line));
  }
  for (const ParameterId id : plan.ignored) text.ignored.push_back(model.parameter(id).name);
  return text;
}

Result<WrapPlan> plan_from_text(const PlanText& text, const Model& model) {
  WrapContext context(model);
  WrapOptions options{.ignored_states = text.ignored, .full_precision_classes = {}};
  TESSERA_ASSIGN(const auto scope, context.enable_wrap());
  // Pre-order from behind: nested units are made before those around them.
  for (auto line = text.units.rbegin(); line != text.units.rend(); ++line) {
    TESSERA_ASSIGN(const UnitLine unit, parse_line(*line));
    if (unit.path.empty()) {
      options.root = unit.overrides;
    } else {
      TESSERA_TRY(context.wrap(unit.path, unit.overrides));
    }
  }
  return context.plan(options);
}

}  // namespace tessera
