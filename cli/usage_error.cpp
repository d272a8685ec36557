// SPDX-License-Identifier: Apache-2.0
#include "cli/usage_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "engine/text/nearest_word.h"

namespace tessera::cli {
namespace {

bool is_option(std::string_view word) { return word.size() > 1 && word[0] == '-'; }

std::vector<std::string> names_of_commands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string_view best = nearest_word(word, {known.begin(), known.end()});
  return best.empty() ? "" : fmt::format(", did you mean {}?", best);
}

std::string help_of(const CLI::App& app, const CLI::App& command) {
  return &command == &app ? "tessera --help" : fmt::format("tessera {} --help", command.get_name());
}

// What is wrong with a word that nothing took: `command` is where it stands.
std::string unexpected(const CLI::App& app, const CLI::App& command, const std::string& word) {
  if (is_option(word)) {
    std::vector<std::string> options;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    const std::string meant = did_you_mean(word.substr(0, word.find('=')), options);
    return fmt::format("unknown option {}{}", word,
                       !meant.empty() ? meant : ": see " + help_of(app, command));
  }
  if (&command == &app) {
    const auto names = names_of_commands(app);
    const std::string meant = did_you_mean(word, names);
    return fmt::format("unknown sub-command {}{}", word,
                       !meant.empty() ? meant : fmt::format(": choose {}", fmt::join(names, ", ")));
  }
  return fmt::format("unexpected argument {}: see {}", word, help_of(app, command));
}

// CLI11's errors have no members, only texts such as "--nodes: At Most 1 required but received 2".
std::string_view between(std::string_view text, std::string_view begin, std::string_view end) {
  const std::size_t from = text.find(begin);
  if (from == text.npos) return {};
  const std::string_view rest = text.substr(from + begin.size());
  const std::size_t to = end.empty() ? rest.size() : rest.find(end);
  return to == rest.npos ? std::string_view() : rest.substr(0, to);
}

// "Could not convert: --nodes = 1.5"
std::string not_convertible(const CLI::App& command, const std::string& text) {
  const std::string name(between(text, "Could not convert: ", " = "));
  const std::string_view value = between(text, " = ", "");
  const CLI::Option* const option = command.get_option_no_throw(name);
  if (option == nullptr) return text;
  if (option->get_items_expected_max() == 0) {
    return fmt::format("{} takes no value, and is given '{}': leave that out", name, value);
  }
  const std::string type = option->get_type_name();  // "INT:1 to 1000000"
  const std::size_t colon = type.find(':');
  const bool digits = value.find_first_not_of("-0123456789") == value.npos;
  const char* const wrong = type.starts_with("FLOAT") ? "no number"
                            : digits                  ? "out of range"
                                                      : "no whole number";
  return fmt::format("{}: '{}' is {}{}", name, value, wrong,
                     colon == type.npos ? "" : ", choose " + type.substr(colon + 1));
}

// "--nodes: At Most 1 required but received 2", "--nodes: 1 required INT missing"
std::string wrong_count(const std::string& text) {
  const std::string_view name = between(text, "", ": ");
  const std::string_view times = between(text, ": At Most 1 required but received ", "");
  if (!times.empty()) return fmt::format("{} is given {} times: give it once", name, times);
  if (text.find(" required ") != text.npos && text.ends_with(" missing")) {
    return fmt::format("{} is given no value: add one, or leave it out", name);
  }
  return text;
}

std::string said_by_library(const CLI::App& command, const CLI::ParseError& error) {
  if (error.get_name() == "ConversionError") {
    return not_convertible(command, error.what());
  }
  if (error.get_name() == "ArgumentMismatch") {
    return wrong_count(error.what());
  }
  const auto words = names_of_commands(command);
  const bool alone = command.get_subcommands().empty();
  if (error.get_name() == "RequiredError" && !words.empty() && alone) {
    return fmt::format("{} does nothing by itself: add {}", command.get_name(),
                       fmt::join(words, ", "));
  }
  return error.what();
}

}  // namespace

std::string sentence_of(const CLI::App& app, const CLI::ParseError& error) {
  const auto parsed = app.get_subcommands();
  const CLI::App& command = parsed.empty() ? app : *parsed.front();
  const std::vector<std::string> left = app.remaining(/*recurse=*/true);
  // Before what is missing: a misspelled option makes another one look missing.
  const auto option = std::find_if(left.begin(), left.end(), is_option);
  if (option != left.end()) return unexpected(app, command, *option);
  if (!left.empty()) return unexpected(app, command, left.front());
  if (parsed.empty()) {
    return fmt::format("name a sub-command: {}; see tessera --help",
                       fmt::join(names_of_commands(app), ", "));
  }
  return fmt::format("{}; see {}", said_by_library(command, error), help_of(app, command));
}

}  // namespace tessera::cli
