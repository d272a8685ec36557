// SPDX-License-Identifier: Apache-2.0
#include "cli/options/scheme_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/plan_file.h"
#include "engine/text/named_once.h"

namespace tessera::cli {
namespace {

constexpr const char* sharding = "Sharding";

// What makes a wrap plan of a model, for schemes that take one. No scheme's option: it needs the
// model.
const std::vector<Option>& wrap_flags() {
  static const std::vector<Option> flags = {
      {.name = "wrap",
       .help = "Instead of --units: every module of this class becomes a unit",
       .kind = OptionKind::text,
       .standard = ""},
      {.name = "ignored_modules",
       .help = "Paths of modules that are not sharded, nor reduced",
       .flag = "--ignore-modules",
       .kind = OptionKind::list,
       .standard = std::vector<std::string>{}},
      {.name = "ignored_parameters",
       .help = "The same of single parameters, by name",
       .flag = "--ignore-parameters",
       .kind = OptionKind::list,
       .standard = std::vector<std::string>{}},
      {.name = "plan",
       .help = "Instead of these: a file that says units and their settings (wrap --write-plan)",
       .kind = OptionKind::text,
       .standard = ""}};
  return flags;
}

std::optional<WrapPlan>* plan_of(Scheme& scheme) {
  if (auto* o = std::get_if<FullyShardOptions>(&scheme)) return &o->plan;
  if (auto* o = std::get_if<Fsdp1Options>(&scheme)) return &o->plan;
  return nullptr;
}

const std::vector<std::string>& units_of(const Scheme& scheme) {
  if (const auto* o = std::get_if<FullyShardOptions>(&scheme)) return o->units;
  return std::get<Fsdp1Options>(scheme).units;
}

// Whether parameters are kept whole in the dtype of the optimizer's state.
bool is_replicated(const Scheme& scheme) {
  return std::holds_alternative<ReplicateOptions>(scheme) ||
         std::holds_alternative<ShardedDataParallelOptions>(scheme);
}

std::vector<std::string> schemes_with(const std::string& flag) {
  std::vector<std::string> names;
  for (const std::string& name : scheme_names()) {
    const auto known = options_known_to(name);
    const bool knows = std::any_of(known.begin(), known.end(),
                                   [&](const Option& option) { return flag_of(option) == flag; });
    Scheme scheme = *scheme_named(name);
    const bool wraps = plan_of(scheme) != nullptr &&
                       std::any_of(wrap_flags().begin(), wrap_flags().end(),
                                   [&](const Option& option) { return flag_of(option) == flag; });
    if (knows || wraps) names.push_back(name);
  }
  return names;
}

Result<std::vector<std::string>> list_of(const GivenFlags& given, const Option& option) {
  const auto found = given.find(flag_of(option));
  if (found == given.end()) return std::vector<std::string>{};
  TESSERA_ASSIGN(const OptionValue value, parse_option(option, found->second));
  const auto& names = std::get<std::vector<std::string>>(value);
  TESSERA_TRY(check_named_once(flag_of(option), names));
  return names;
}

Result<WrapPlan> plan_wrapping_of(const std::string& wrap_class, std::vector<std::string> units,
                                  const WrapOptions& options, const Model& model) {
  for (const std::string& path : units) {
    if (model.find_module(path).valid()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("--units: '{}' is no module of {}", path, model.name));
  }
  WrapPolicy policy = ClassWrap{{wrap_class}};
  if (wrap_class.empty()) {
    policy = LambdaWrap{[units = std::move(units)](const Module& m) {
      if (units.empty()) return m.is_block;
      return std::find(units.begin(), units.end(), m.path) != units.end();
    }};
  }
  Result<WrapPlan> plan = plan_wrapping(model, policy, options);
  if (plan.ok() || wrap_class.empty()) return plan;
  return Status(plan.status().code(),
                fmt::format("--wrap {}: {}", wrap_class, plan.status().message()));
}

// What --units, --wrap and the ignore options say together.
Status apply_wrapping(const GivenFlags& given, const Model& model, Scheme& scheme) {
  std::optional<WrapPlan>* const plan = plan_of(scheme);
  if (plan == nullptr) return {};
  if (const auto file = given.find("--plan"); file != given.end()) {
    for (const char* flag : {"--units", "--wrap", "--ignore-modules", "--ignore-parameters"}) {
      if (!given.contains(flag)) continue;
      return Status(Code::invalid_argument,
                    fmt::format("--plan says which modules are units and which are ignored: leave "
                                "{} out",
                                flag));
    }
    TESSERA_ASSIGN(*plan, load_wrap_plan(file->second, model));
    return {};
  }
  const auto wrap = given.find(flag_of(wrap_flags()[0]));
  const std::string wrap_class = wrap == given.end() ? "" : wrap->second;
  TESSERA_ASSIGN(const auto modules, list_of(given, wrap_flags()[1]));
  TESSERA_ASSIGN(const auto parameters, list_of(given, wrap_flags()[2]));
  if (!wrap_class.empty() && !units_of(scheme).empty()) {
    return Status(Code::invalid_argument, "give --units or --wrap, not both");
  }
  if (!modules.empty() && !parameters.empty()) {
    return Status(Code::invalid_argument,
                  "give --ignore-modules or --ignore-parameters, not both: the parameters of an "
                  "ignored module are ignored");
  }
  if (wrap_class.empty() && modules.empty() && parameters.empty()) return {};
  TESSERA_ASSIGN(
      *plan, plan_wrapping_of(wrap_class, units_of(scheme),
                              {.ignored_modules = modules, .ignored_states = parameters}, model));
  return set_option(scheme, "units", std::vector<std::string>{});
}

// A plan may say other dtypes of each unit.
Status check_low_precision(const Scheme& scheme) {
  const auto* const o = std::get_if<Fsdp1Options>(&scheme);
  if (o == nullptr || !o->keep_low_precision_grads || o->plan) return {};
  const DType reduced = o->reduce_dtype.value_or(o->param_dtype.value_or(o->original_dtype));
  if (reduced != o->original_dtype) return {};
  return Status(Code::invalid_argument,
                fmt::format("--keep-low-precision-grads means nothing where gradients are reduced "
                            "in {}, as shards have it: add --reduce-dtype, or leave it out",
                            name_of(reduced)));
}

}  // namespace

void add_scheme_options(CLI::App& command, SchemeOptions& o) {
  const auto choose = [&o](const std::string& name) { o.given["--scheme"] = o.scheme = name; };
  command.add_option_function<std::string>("--scheme", choose, "How parameters are sharded")
      ->default_str(o.scheme)
      ->group(sharding);
  // A flag of several structs is one, and not of a family.
  std::map<std::string, std::vector<const OptionFamily*>> families_of;
  for (const OptionFamily& family : option_families()) {
    for (const Option& option : family.options) families_of[flag_of(option)].push_back(&family);
  }
  for (const Option& option : wrap_flags()) {
    add_option_flag(command, option, sharding, "", o.given);
    families_of.erase(flag_of(option));
  }
  for (const OptionFamily& family : option_families()) {
    for (const Option& option : family.options) {
      const auto& families = families_of[flag_of(option)];
      if (families.empty() || families.front() != &family) continue;
      const bool shared = families.size() > 1;
      const std::string shown =
          option.name == "param_dtype" ? o.param_dtype : shown_default(option);
      add_option_flag(command, option, shared ? sharding : family.title, shown, o.given);
    }
  }
}

Status apply_given(const GivenFlags& given, Scheme& scheme) {
  const std::string name(name_of(scheme));
  const std::vector<Option> known = options_known_to(name);
  std::vector<std::string> names;
  for (const auto& [flag, text] : given) {
    const auto option =
        std::find_if(known.begin(), known.end(),
                     [&, &flag = flag](const Option& o) { return flag_of(o) == flag; });
    if (option != known.end()) {
      TESSERA_ASSIGN(const OptionValue value, parse_option(*option, text));
      TESSERA_TRY(set_option(scheme, option->name, value));
      names.push_back(option->name);
      continue;
    }
    const std::vector<std::string> others = schemes_with(flag);
    if (flag == "--scheme" || std::find(others.begin(), others.end(), name) != others.end()) {
      continue;
    }
    return Status(Code::invalid_argument,
                  fmt::format("{} means nothing to the scheme {}: leave it out, it is for {}", flag,
                              name, fmt::join(others, ", ")));
  }
  return check_needs(scheme, names, OptionSpelling::flags);
}

Result<Scheme> resolve_scheme(const SchemeOptions& o, const Model& model) {
  Result<Scheme> scheme = scheme_named(o.scheme);
  if (!scheme.ok()) {
    return Status(scheme.status().code(), "--scheme: " + scheme.status().message());
  }
  // Programs gather in fewer bytes than shards have, and reduce in as many.
  if (!is_replicated(*scheme)) TESSERA_TRY(set_option(*scheme, "param_dtype", o.param_dtype));
  if (auto* o1 = std::get_if<Fsdp1Options>(&*scheme)) o1->reduce_dtype = DType::float32;
  TESSERA_TRY(apply_given(o.given, *scheme));
  TESSERA_TRY(apply_wrapping(o.given, model, *scheme));
  TESSERA_TRY(check_low_precision(*scheme));
  return scheme;
}

}  // namespace tessera::cli
