// SPDX-License-Identifier: Apache-2.0
#include "cli/options/run_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "cli/command.h"
#include "engine/text/nearest_word.h"

namespace tessera::cli {
namespace {

std::string with(std::string text, char from, char to) {
  std::replace(text.begin(), text.end(), from, to);
  return text;
}

// "--learning-rate" -> "learning_rate", MODEL -> "model".
std::string key_of(const CLI::Option& option) {
  if (option.get_positional()) return CLI::detail::to_lower(option.get_name());
  return with(option.get_lnames().front(), '-', '_');
}

std::string section_of(const CLI::Option& option) {
  if (option.get_positional()) return "";
  const std::string group = option.get_group();  // perhaps "FSDP2: fully_shard"
  return with(CLI::detail::to_lower(group.substr(0, group.find(':'))), ' ', '_');
}

bool is_flag(const CLI::Option& option) { return option.get_expected_max() == 0; }

std::vector<const CLI::Option*> options_in_file(const CLI::App& command) {
  std::vector<const CLI::Option*> out;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_name() != "--help") out.push_back(option);
  }
  return out;
}

bool is_given(const CLI::Option& option, const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const std::string name = argument.substr(0, argument.find('='));
    for (const std::string& known : option.get_lnames()) {
      if (name == "--" + known) return true;
    }
    for (const std::string& known : option.get_snames()) {
      if (name == "-" + known) return true;
    }
  }
  return false;
}

class RunFileArguments {
 public:
  RunFileArguments(const CLI::App& command, std::string path)
      : command_(command), path_(std::move(path)) {}

  Result<std::vector<std::string>> before(const std::vector<std::string>& others) const {
    std::error_code error;
    std::ifstream file(path_, std::ios::binary);
    if (!file || std::filesystem::is_directory(path_, error)) {
      return Status(Code::io_error, fmt::format("{}: cannot be read", path_));
    }
    const std::string text(std::istreambuf_iterator<char>(file), {});
    TESSERA_ASSIGN(const auto entries, parse_run_file(text, path_));
    for (const std::string& other : others) TESSERA_TRY(check_other_file(other));
    for (const RunFileEntry& entry : entries) {
      for (const std::string& value : entry.values) TESSERA_TRY(check_other_file(value));
    }
    const bool names_model = !others.empty() && !others.front().starts_with("-");
    std::vector<std::string> out;
    for (const RunFileEntry& entry : entries) {
      TESSERA_TRY(check_section(entry));
      if (entry.key.empty()) continue;
      TESSERA_ASSIGN(const CLI::Option* option, option_of(entry));
      if (option->get_positional() ? names_model : is_given(*option, others)) continue;
      TESSERA_ASSIGN(const std::string argument, argument_of(*option, entry));
      if (!argument.empty()) out.push_back(argument);
    }
    return out;
  }

 private:
  Status failed(const RunFileEntry& entry, const std::string& what) const {
    return Status(Code::invalid_argument, fmt::format("{}: line {}: {}", path_, entry.line, what));
  }

  // No option means the run's own file; a log or weights would be written over it.
  Status check_other_file(const std::string& value) const {
    const bool flag = value.starts_with("--");
    const std::string name =
        flag ? value.substr(std::min(value.find('='), value.size() - 1) + 1) : value;
    std::error_code error;
    if (!std::filesystem::equivalent(name, path_, error)) return {};
    return Status(Code::invalid_argument,
                  fmt::format("{} is the file that says what to run: choose another name", name));
  }

  static std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
    const auto near = nearest_word(word, {known.begin(), known.end()});
    return near.empty() ? std::string() : fmt::format(", did you mean {}?", near);
  }

  Status check_section(const RunFileEntry& entry) const {
    std::vector<std::string> sections;
    for (const CLI::Option* option : options_in_file(command_)) {
      sections.push_back(section_of(*option));
      if (sections.back() == entry.section) return {};
    }
    return failed(entry, fmt::format("unknown section {}{}", entry.section,
                                     did_you_mean(entry.section, sections)));
  }

  Result<const CLI::Option*> option_of(const RunFileEntry& entry) const {
    std::vector<std::string> keys;
    for (const CLI::Option* option : options_in_file(command_)) keys.push_back(key_of(*option));
    const auto options = options_in_file(command_);
    const auto found = std::find(keys.begin(), keys.end(), with(entry.key, '-', '_'));
    if (found != keys.end()) {
      const CLI::Option* const option = options[static_cast<std::size_t>(found - keys.begin())];
      TESSERA_TRY(check_place(*option, entry));
      return option;
    }
    return failed(entry, fmt::format("unknown option {}{}", entry.key,
                                     did_you_mean(with(entry.key, '-', '_'), keys)));
  }

  // A key that slipped below the wrong header is a slip, and perhaps another key was meant.
  Status check_place(const CLI::Option& option, const RunFileEntry& entry) const {
    const std::string own = section_of(option);
    if (entry.section.empty() || entry.section == own) return {};
    const std::string place = own.empty() ? "before the first section" : "under [" + own + "]";
    return failed(entry, fmt::format("{} stands under [{}], but belongs {}: move it there{}",
                                     entry.key, entry.section, place,
                                     own.empty() ? "" : ", or before the first section"));
  }

  // "" says what is so anyway.
  Result<std::string> argument_of(const CLI::Option& option, const RunFileEntry& entry) const {
    for (const std::string& value : entry.values) {
      if (entry.values.size() == 1 || value.find(',') == std::string::npos) continue;
      return failed(entry, fmt::format("{}: a part of an array has no comma", entry.key));
    }
    const std::string value = fmt::format("{}", fmt::join(entry.values, ","));
    if (value.empty() && !(is_flag(option) || option.get_default_str().empty())) {
      return failed(entry, fmt::format("{} is empty: give it a value, or leave it out", entry.key));
    }
    if (option.get_positional()) return value;
    const std::string name = "--" + option.get_lnames().front();
    if (!is_flag(option)) return value.empty() ? "" : name + "=" + value;
    if (value == "true") return name;
    if (value == "false") return std::string();
    return failed(entry, fmt::format("{} is {}, but must be true or false", entry.key, value));
  }

  const CLI::App& command_;
  const std::string path_;
};

// What TOML has without quotes; 100-119 and 2026-01-02 are no numbers.
bool is_plain(const std::string& value) {
  if (value == "true" || value == "false") return true;
  if (value.empty() || value.find_first_of("0123456789") != 0) return false;
  double number = 0;
  const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
  return wrong == std::errc{} && end == value.data() + value.size();
}

std::string toml_value(const std::string& value) {
  if (is_plain(value)) return value;
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out + "\"";
}

std::string toml_values(const std::vector<std::string>& values) {
  if (values.size() == 1) return toml_value(values.front());
  std::vector<std::string> parts;
  for (const std::string& value : values) parts.push_back(toml_value(value));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

// The line of an option that was given; "": it was not.
std::string given_line(const CLI::Option& option, const std::vector<RunFileEntry>& extra) {
  const std::string key = key_of(option);
  for (const RunFileEntry& entry : extra) {
    if (entry.key == key) return fmt::format("{} = {}\n", key, toml_values(entry.values));
  }
  if (option.count() == 0) return "";
  if (is_flag(option)) return key + " = true\n";
  return fmt::format("{} = {}\n", key, toml_values(option.results()));
}

}  // namespace

Result<std::vector<std::string>> with_run_file(const CLI::App& app,
                                               const std::vector<std::string>& arguments) {
  const bool trains = arguments.size() > 1 && arguments[0] == "train";
  if (!trains || !CLI::detail::to_lower(arguments[1]).ends_with(".toml")) return arguments;
  const std::vector<std::string> others(arguments.begin() + 2, arguments.end());
  TESSERA_ASSIGN(std::vector<std::string> all,
                 RunFileArguments(*app.get_subcommand("train"), arguments[1]).before(others));
  all.insert(all.begin(), arguments[0]);
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

std::string run_file_text(const CLI::App& command, const std::string& comment,
                          const std::vector<RunFileEntry>& extra) {
  std::string text = "# " + comment + "\n";
  std::vector<std::string> sections;
  std::map<std::string, std::string> lines;
  for (const CLI::Option* option : options_in_file(command)) {
    const std::string section = section_of(*option);
    if (lines[section].empty()) sections.push_back(section);
    const std::string given = given_line(*option, extra);
    const std::string standard = is_flag(*option) ? "false" : option->get_default_str();
    lines[section] +=
        !given.empty() ? given : fmt::format("# {} = {}\n", key_of(*option), toml_value(standard));
  }
  std::stable_partition(sections.begin(), sections.end(),
                        [](const std::string& section) { return section.empty(); });
  for (const std::string& section : sections) {
    text += section.empty() ? "\n" : fmt::format("\n[{}]\n", section);
    text += lines[section];
  }
  return text;
}

}  // namespace tessera::cli
