// SPDX-License-Identifier: Apache-2.0
#include "cli/report/command_list.h"

#include <algorithm>

namespace tessera::cli {
namespace {

using Filter = std::function<bool(const CLI::App*)>;

const Filter every = [](const CLI::App*) { return true; };

// "TEXT:{eager,fused}" and "{none,cpu}" list what may be said.
std::vector<std::string> words_in(const std::string& type) {
  std::vector<std::string> words;
  const std::size_t open = type.find('{');
  const std::size_t close = type.find('}', open == std::string::npos ? 0 : open);
  if (open == std::string::npos || close == std::string::npos) return words;
  std::size_t begin = open + 1;
  while (begin <= close) {
    const std::size_t end = std::min(type.find(',', begin), close);
    words.push_back(type.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

OptionText text_of(const CLI::Option& option) {
  OptionText out;
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  out.positional = option.get_positional();
  if (out.positional) out.names = {option.get_name(true)};
  const bool flag = option.get_items_expected_max() == 0;
  out.value = flag ? "" : option.get_type_name();
  out.words = words_in(out.value);
  out.usual = option.get_default_str();
  out.text = option.get_description();
  out.group = option.get_group();
  return out;
}

void add(const CLI::App& command, const std::string& before, std::vector<CommandText>& all) {
  const auto below = command.get_subcommands(every);
  const std::string name = before + command.get_name();
  for (const CLI::App* inner : below) add(*inner, name + " ", all);
  if (!below.empty()) return;
  CommandText out{.name = name,
                  .text = command.get_description(),
                  .footer = command.get_footer(),
                  .options = {}};
  for (const CLI::Option* option : command.get_options()) out.options.push_back(text_of(*option));
  all.push_back(std::move(out));
}

}  // namespace

std::vector<CommandText> commands_of(const CLI::App& app) {
  std::vector<CommandText> all;
  for (const CLI::App* command : app.get_subcommands(every)) add(*command, "", all);
  return all;
}

}  // namespace tessera::cli
