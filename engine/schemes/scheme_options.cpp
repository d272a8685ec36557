// SPDX-License-Identifier: Apache-2.0
// The lists of all schemes, by the scheme's name.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "engine/schemes/option_lists.h"
#include "engine/text/nearest_word.h"
#include "engine/wrap/plan_text.h"

namespace tessera {
namespace {

bool holds(const std::vector<std::string>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool knows(std::string_view scheme, const Option& option) {
  return option.schemes.empty() || holds(option.schemes, scheme);
}

const OptionFamily& family_of(const Scheme& scheme) {
  return std::visit([](const auto& o) -> const OptionFamily& { return option_list(o).family(); },
                    scheme);
}

Status unknown(const Scheme& scheme, std::string_view name) {
  std::vector<std::string_view> known;
  for (const Option& option : family_of(scheme).options) {
    if (knows(name_of(scheme), option)) known.push_back(option.name);
  }
  return Status(Code::invalid_argument,
                fmt::format("the scheme {} has no option {}{}", name_of(scheme), name,
                            did_you_mean(name, known)));
}

// Both kinds of FSDP take a plan instead of units.
std::optional<WrapPlan>* plan_of(Scheme& scheme) {
  if (auto* o = std::get_if<FullyShardOptions>(&scheme)) return &o->plan;
  if (auto* o = std::get_if<Fsdp1Options>(&scheme)) return &o->plan;
  return nullptr;
}

template <class Struct>
OptionValues values_of(const Struct& o, std::string_view scheme) {
  OptionValues values;
  const auto& list = option_list(o);
  for (std::size_t place = 0; place < list.options().size(); ++place) {
    const Option& option = list.options()[place];
    if (knows(scheme, option)) values.emplace_back(option.name, list.get(o, place));
  }
  return values;
}

// What `options_of` says of a plan.
Status set_plan(Scheme& scheme, const OptionValues& values, const Model& model) {
  PlanText text;
  bool given = false;
  for (const auto& [name, value] : values) {
    if (name != "plan" && name != "ignored_parameters") continue;
    const auto* const lines = std::get_if<std::vector<std::string>>(&value);
    std::optional<WrapPlan>* const plan = plan_of(scheme);
    if (lines == nullptr || plan == nullptr) return unknown(scheme, name);
    (name == "plan" ? text.units : text.ignored) = *lines;
    given = given || name == "plan";
  }
  if (given) {
    TESSERA_ASSIGN(*plan_of(scheme), plan_from_text(text, model));
  }
  return {};
}

}  // namespace

const std::vector<OptionFamily>& option_families() {
  static const std::vector<OptionFamily> families = {
      option_list(FullyShardOptions{}).family(), option_list(Fsdp1Options{}).family(),
      option_list(ReplicateOptions{}).family(),  option_list(ShardedDataParallelOptions{}).family(),
      option_list(Zero12Options{}).family(),     option_list(Zero3Options{}).family()};
  return families;
}

std::vector<std::string> scheme_names() {
  std::vector<std::string> names;
  for (const OptionFamily& family : option_families()) {
    names.insert(names.end(), family.schemes.begin(), family.schemes.end());
  }
  return names;
}

Result<Scheme> scheme_named(std::string_view name) {
  for (int strategy = 0; strategy < 5; ++strategy) {
    const Fsdp1Options o{.strategy = static_cast<ShardingStrategy>(strategy)};
    if (name == name_of(o.strategy)) return Scheme(o);
  }
  for (const Scheme& scheme :
       {Scheme(FullyShardOptions{}), Scheme(ReplicateOptions{}),
        Scheme(ShardedDataParallelOptions{}), Scheme(Zero12Options{.stage = 1}),
        Scheme(Zero12Options{.stage = 2}), Scheme(Zero3Options{})}) {
    if (name == name_of(scheme)) return scheme;
  }
  return Status(Code::invalid_argument, fmt::format("there is no scheme '{}': choose {}", name,
                                                    fmt::join(scheme_names(), ", ")));
}

std::vector<Option> options_known_to(std::string_view scheme) {
  std::vector<Option> known;
  for (const OptionFamily& family : option_families()) {
    if (!holds(family.schemes, scheme)) continue;
    std::copy_if(family.options.begin(), family.options.end(), std::back_inserter(known),
                 [&](const Option& option) { return knows(scheme, option); });
  }
  return known;
}

OptionValues options_of(const Scheme& scheme, const Model& model) {
  OptionValues values =
      std::visit([&](const auto& o) { return values_of(o, name_of(scheme)); }, scheme);
  Scheme copy = scheme;
  const std::optional<WrapPlan>* const plan = plan_of(copy);
  if (plan == nullptr || !*plan) return values;
  PlanText text = to_text(**plan, model);
  values.emplace_back("plan", std::move(text.units));
  values.emplace_back("ignored_parameters", std::move(text.ignored));
  return values;
}

Status set_option(Scheme& scheme, std::string_view name, const OptionValue& value) {
  const std::string scheme_name(name_of(scheme));
  return std::visit(
      [&](auto& o) -> Status {
        const auto& list = option_list(o);
        const std::size_t place = list.find(name);
        if (place == list.options().size() || !knows(scheme_name, list.options()[place])) {
          return unknown(scheme, name);
        }
        const Option& option = list.options()[place];
        TESSERA_ASSIGN(const OptionValue checked, checked_option(option, value, option.name));
        return list.set(o, place, checked);
      },
      scheme);
}

Result<Scheme> scheme_from(std::string_view name, const OptionValues& values, const Model& model) {
  TESSERA_ASSIGN(Scheme scheme, scheme_named(name));
  for (const auto& [option, value] : values) {
    if (option == "plan" || option == "ignored_parameters") continue;
    TESSERA_TRY(set_option(scheme, option, value));
  }
  TESSERA_TRY(set_plan(scheme, values, model));
  return scheme;
}

Status check_needs(const Scheme& scheme, const std::vector<std::string>& given,
                   OptionSpelling spelling) {
  const OptionValues values =
      std::visit([&](const auto& o) { return values_of(o, name_of(scheme)); }, scheme);
  return check_needs(options_known_to(name_of(scheme)), values, given,
                     fmt::format("to the scheme {} ", name_of(scheme)), spelling);
}

}  // namespace tessera
