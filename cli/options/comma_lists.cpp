// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cli/command.h"

namespace tessera::cli {

Status check_lists(const CLI::App& app, const std::vector<std::string>& arguments) {
  const auto called = app.get_subcommands([&](const CLI::App* command) {
    return !arguments.empty() && command->get_name() == arguments[0];
  });
  if (called.empty()) return {};
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    const std::string& word = arguments[k];
    const std::size_t equals = word.find('=');
    const CLI::Option* const option =
        word.starts_with("--") ? called[0]->get_option_no_throw(word.substr(0, equals)) : nullptr;
    if (option == nullptr || option->get_delimiter() == 0) continue;
    const bool apart = equals == word.npos && k + 1 < arguments.size();
    const std::string value = equals != word.npos ? word.substr(equals + 1)
                              : apart             ? arguments[k + 1]
                                                  : "";
    const char comma = option->get_delimiter();
    const bool empty = value.starts_with(comma) || value.ends_with(comma) ||
                       value.find({comma, comma}) != value.npos;
    if (!empty) continue;
    return Status(Code::invalid_argument,
                  fmt::format("{} {}: a part of the list is empty: name something there, or leave "
                              "the comma out",
                              option->get_name(), value));
  }
  return {};
}

}  // namespace tessera::cli
