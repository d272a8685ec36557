// SPDX-License-Identifier: Apache-2.0
#include "cli/options/option_flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

namespace tessera::cli {

void add_option_flag(CLI::App& command, const Option& option, const std::string& group,
                     const std::string& shown, GivenFlags& given) {
  const std::string flag = flag_of(option);
  if (option.kind == OptionKind::flag) {
    const std::string other = to_text(!std::get<bool>(option.standard));
    command
        .add_flag_callback(
            flag, [&given, flag, other] { given[flag] = other; }, option.help)
        ->group(group);
    return;
  }
  if (option.kind == OptionKind::list) {  // all that are given, one behind another
    const auto keep = [&given, flag](const std::vector<std::string>& lists) {
      given[flag] = fmt::format("{}", fmt::join(lists, ","));
    };
    command.add_option_function<std::vector<std::string>>(flag, keep, option.help)
        ->allow_extra_args(false)  // what follows the list is MODEL
        ->type_name("A,B,...")
        ->default_str(shown)
        ->group(group);
    return;
  }
  // Values are checked by the list, with the scheme that was chosen.
  CLI::Option* const added = command.add_option_function<std::string>(
      flag, [&given, flag](const std::string& text) { given[flag] = text; }, option.help);
  if (option.kind == OptionKind::integer) added->type_name("INT");
  if (option.kind == OptionKind::number) added->type_name("FLOAT");
  if (option.kind == OptionKind::word) {
    added->type_name(fmt::format("{{{}}}", fmt::join(option.words, ",")));
  }
  added->default_str(shown)->group(group);
}

std::string shown_default(const Option& option) {
  return option.kind == OptionKind::flag ? "" : to_text(option.standard);
}

}  // namespace tessera::cli
