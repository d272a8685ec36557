// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "cli/command.h"
#include "cli/options/checks.h"
#include "cli/options/engine_options.h"
#include "cli/options/plan_file.h"
#include "cli/plan/wrap_sizes.h"
#include "cli/text_file.h"
#include "engine/text/json_reader.h"
#include "engine/text/named_once.h"

namespace tessera::cli {
namespace {

using Names = std::vector<std::string>;

Names list_of(const std::set<std::string>& names) { return {names.begin(), names.end()}; }

struct WrapArguments {
  std::string model_path;
  std::string policy = "blocks";
  std::string plan;        // a file
  std::string write_plan;  // another
  Names classes;
  std::int64_t min_params = SizeWrap{}.min_num_params.value;
  Names force_leaf = list_of(SizeWrap{}.force_leaf);
  Names exclude = list_of(SizeWrap{}.exclude);
  Names ignored_modules;
  Names ignored_parameters;
  std::string layout = "dim0";
  std::int32_t ranks = 8;
  std::string dtype = "float32";
  bool json = false;
};

constexpr const char* wrap_examples = R"(Examples:
  tessera wrap examples/models/llama-3-8b.json --ranks 64
  tessera wrap config.json --policy class --class LlamaDecoderLayer,Embedding --layout flat
  tessera wrap config.json --policy size --min-params 20000000 --json
  tessera wrap config.json --policy class --class LlamaDecoderLayer --write-plan plan.json
  tessera wrap config.json --plan plan.json

Exit codes: 0 done, 2 bad input.)";

const std::map<std::string, DType> wrapped_dtypes = {
    {"float32", DType::float32}, {"fp32", DType::float32},    {"bfloat16", DType::bfloat16},
    {"bf16", DType::bfloat16},   {"float16", DType::float16}, {"fp16", DType::float16},
    {"float64", DType::float64}};

// The option's names; the single word none: no class at all.
std::set<std::string> set_of(const Names& names) {
  if (names == Names{"none"}) return {};
  return {names.begin(), names.end()};
}

WrapPolicy policy_of(const WrapArguments& a) {
  if (a.policy == "always") return AlwaysWrap{};
  if (a.policy == "class") return ClassWrap{set_of(a.classes)};
  if (a.policy == "transformer") return TransformerWrap{set_of(a.classes)};
  if (a.policy == "size") {
    return SizeWrap{Numel{a.min_params}, set_of(a.force_leaf), set_of(a.exclude)};
  }
  return LambdaWrap{[](const Module& module) { return module.is_block; }};
}

// Options that the chosen policy does not look at are mistakes, not hints.
Status check_options(const WrapArguments& a, const CLI::App& command) {
  const auto error = [](std::string message) { return Status(Code::invalid_argument, message); };
  const bool by_class = a.policy == "class" || a.policy == "transformer";
  if (by_class && a.classes.empty()) {
    return error(fmt::format("--policy {} needs --class NAME,...", a.policy));
  }
  if (!by_class && !a.classes.empty()) {
    return error(
        fmt::format("--class belongs to --policy class or transformer, not to {}", a.policy));
  }
  for (const char* option : {"--min-params", "--force-leaf", "--exclude"}) {
    if (a.policy != "size" && command.count(option) > 0) {
      return error(fmt::format("{} belongs to --policy size, not to {}", option, a.policy));
    }
  }
  for (const char* option : {"--policy", "--ignore-modules", "--ignore-parameters"}) {
    if (!a.plan.empty() && command.count(option) > 0) {
      return error(fmt::format("{} and --plan: the plan says it, leave {} out", option, option));
    }
  }
  for (const auto& [option, names] : {std::pair("--class", &a.classes),
                                      {"--force-leaf", &a.force_leaf},
                                      {"--exclude", &a.exclude},
                                      {"--ignore-modules", &a.ignored_modules},
                                      {"--ignore-parameters", &a.ignored_parameters}}) {
    TESSERA_TRY(check_named_once(option, *names));
  }
  if (!a.ignored_modules.empty() && !a.ignored_parameters.empty()) {
    return error("give --ignore-modules or --ignore-parameters, not both");
  }
  return {};
}

// Classes that were named and are none of the model's; the defaults are PyTorch's own.
std::vector<std::string> unknown_classes(const WrapArguments& a, const CLI::App& command,
                                         const Model& model) {
  std::vector<std::string> out;
  for (const auto& [option, names] :
       {std::pair("--force-leaf", &a.force_leaf), {"--exclude", &a.exclude}}) {
    if (command.count(option) == 0) continue;
    for (const std::string& name : set_of(*names)) {
      const bool known = std::any_of(model.modules.begin(), model.modules.end(),
                                     [&](const Module& m) { return m.class_name == name; });
      if (known) continue;
      out.push_back(fmt::format("{} {} changes nothing: {} has no module of that class", option,
                                name, model.name));
    }
  }
  return out;
}

Status print_wrap(const WrapArguments& a, const CLI::App& command) {
  TESSERA_TRY(check_options(a, command));
  TESSERA_TRY(check_not_empty(command));
  TESSERA_ASSIGN(const Model model, load_model(a.model_path));
  print_warnings(model_warnings(a.model_path, model));
  print_warnings(unknown_classes(a, command, model));
  for (const std::string& name : a.ignored_parameters) {
    if (!model.find_module(name).valid()) continue;
    return Status(Code::invalid_argument,
                  fmt::format("--ignore-parameters names {}, which is a module: use "
                              "--ignore-modules",
                              in_quotes(name)));
  }
  const WrapSharding sharding{a.layout == "flat" ? WrapLayout::flat : WrapLayout::dim0, a.ranks,
                              wrapped_dtypes.at(a.dtype)};
  const WrapOptions options{.ignored_modules = a.ignored_modules,
                            .ignored_states = a.ignored_parameters,
                            .uniform_requires_grad = sharding.layout == WrapLayout::flat};
  const Result<WrapPlan> made =
      a.plan.empty() ? plan_wrapping(model, policy_of(a), options) : load_wrap_plan(a.plan, model);
  TESSERA_ASSIGN(const WrapPlan plan, made);
  TESSERA_ASSIGN(WrapSizes sizes, sizes_of(model, plan, sharding));
  sizes.policy = a.plan.empty() ? a.policy : a.plan;
  if (!a.write_plan.empty()) {
    TESSERA_TRY(check_overwrites("--write-plan", a.write_plan, "wrap plan", "\"tessera_plan\""));
    TESSERA_TRY(write_text_file(a.write_plan, to_json(plan, model)));
  }
  const bool bold = isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr;
  fmt::print("{}", a.json ? wrap_json(sizes) + "\n" : wrap_text(sizes, bold));
  return {};
}

void add_list(CLI::App& command, const char* name, Names& names, const char* description) {
  command.add_option(name, names, description)
      ->delimiter(',')
      ->allow_extra_args(false)  // what follows the list is MODEL
      ->default_str(fmt::format("{}", fmt::join(names, ",")));
}

}  // namespace

void add_wrap(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<WrapArguments>();
  WrapArguments& a = *arguments;
  CLI::App* command =
      app.add_subcommand("wrap", "Print which modules become sharding units, and their sizes");
  command->footer(wrap_examples);
  command
      ->add_option("MODEL", a.model_path,
                   "Hugging Face config.json, or a module tree (docs/model-format.md)")
      ->required();
  command->add_option("--policy", a.policy, "What decides")
      ->check(CLI::IsMember({"always", "class", "transformer", "size", "blocks"}));
  command->add_option("--plan", a.plan, "Instead of a policy: a file that --write-plan wrote");
  command->add_option("--write-plan", a.write_plan,
                      "Write the plan, for --plan of this and other sub-commands");
  add_list(*command, "--class", a.classes, "class, transformer: classes that become units, A,B");
  command->add_option("--min-params", a.min_params, "size: fewest elements of a unit")
      ->check(within(0, 1e15));
  add_list(*command, "--force-leaf", a.force_leaf, "size: classes not looked into, or none");
  add_list(*command, "--exclude", a.exclude, "size: classes that become no unit, or none");
  add_list(*command, "--ignore-modules", a.ignored_modules, "Module paths left alone, a,b");
  add_list(*command, "--ignore-parameters", a.ignored_parameters, "Parameters left alone, x,y");
  command->add_option("--layout", a.layout, "How a unit is cut: flat, or dim0 by parameter")
      ->check(CLI::IsMember({"flat", "dim0"}));
  command->add_option("--ranks", a.ranks, "Number of ranks")->check(within(1, 1'000'000));
  Names known;
  for (const auto& [name, dtype] : wrapped_dtypes) known.push_back(name);
  command->add_option("--dtype", a.dtype, "Of what is sharded")->check(CLI::IsMember(known));
  command->add_flag("--json", a.json, "Print one JSON object with raw numbers");
  command->callback([arguments, command, &exit_code] {
    const Status status = print_wrap(*arguments, *command);
    if (!status.ok()) exit_code = complain(status);
  });
}

}  // namespace tessera::cli
