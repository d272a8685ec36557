// SPDX-License-Identifier: Apache-2.0
// Completion scripts. They know words and nothing else: where none fits, shells offer files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "cli/report/command_list.h"

namespace tessera::cli {
namespace {

// What may follow the words of a command so far: "" and "trace" have commands below.
std::map<std::string, std::vector<std::string>> words_below(
    const std::vector<CommandText>& commands) {
  std::map<std::string, std::vector<std::string>> below;
  for (const CommandText& command : commands) {
    const std::size_t space = command.name.find(' ');
    auto& first = below[""];
    const std::string head = command.name.substr(0, space);
    if (std::find(first.begin(), first.end(), head) == first.end()) first.push_back(head);
    if (space != std::string::npos) below[head].push_back(command.name.substr(space + 1));
  }
  return below;
}

std::vector<std::string> long_flags(const CommandText& command) {
  std::vector<std::string> flags;
  for (const OptionText& option : command.options) {
    if (!option.positional) flags.push_back(option.names.back());
  }
  return flags;
}

std::string in_single_quotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) c == '\'' ? quoted += "'\\''" : quoted += c;
  return quoted + "'";
}

std::string groups_of(const std::map<std::string, std::vector<std::string>>& below) {
  std::vector<std::string> groups;
  for (const auto& [name, words] : below) {
    if (!name.empty()) groups.push_back(name);
  }
  return fmt::format("{}", fmt::join(groups, "|"));
}

constexpr const char* bash_script =
    R"sh(# Completion of tessera for bash: eval "$(tessera completion bash)"
_tessera() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= words= i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case ${COMP_WORDS[i]} in
      -*) ;;
      *) case $command in
           '') command=${COMP_WORDS[i]} ;;
           @GROUPS@) command+=" ${COMP_WORDS[i]}" ;;
         esac ;;
    esac
  done
  COMPREPLY=()
  case "$command $before" in
@VALUES@  esac
  if [[ -n $words ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    return
  fi
  case $command in
@WORDS@  esac
  case $command in
    '' | @GROUPS@) ;;
    *) [[ $current == -* ]] || return ;;  # its files are found without us
  esac
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -o default -F _tessera tessera
)sh";

constexpr const char* zsh_script =
    R"sh(#compdef tessera
# Completion of tessera for zsh: tessera completion zsh > ~/.zfunc/_tessera
local command='' word
for word in ${words[2,CURRENT-1]}; do
  case $word in
    -*) ;;
    *) case $command in
         '') command=$word ;;
         @GROUPS@) command+=" $word" ;;
       esac ;;
  esac
done
case $command in
@CASES@esac
)sh";

std::string with(std::string script, const std::string& place, const std::string& text) {
  for (std::size_t at = 0; (at = script.find(place, at)) != std::string::npos; at += text.size()) {
    script.replace(at, place.size(), text);
  }
  return script;
}

std::string bash(const std::vector<CommandText>& commands) {
  const auto below = words_below(commands);
  std::string values;
  std::string words;
  for (const auto& [name, next] : below) {
    words += fmt::format("    '{}') words='{} --help{}' ;;\n", name, fmt::join(next, " "),
                         name.empty() ? " --version" : "");
  }
  for (const CommandText& command : commands) {
    words +=
        fmt::format("    '{}') words='{}' ;;\n", command.name, fmt::join(long_flags(command), " "));
    for (const OptionText& option : command.options) {
      if (option.words.empty() || option.positional) continue;
      values += fmt::format("    '{} {}') words='{}' ;;\n", command.name, option.names.back(),
                            fmt::join(option.words, " "));
    }
  }
  const std::string script = with(bash_script, "@GROUPS@", groups_of(below));
  return with(with(script, "@VALUES@", values), "@WORDS@", words);
}

// Colons and brackets end a description.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_option(const OptionText& option) {
  const std::string what = option.value.empty() ? ""
                           : option.words.empty()
                               ? ":value:_files"
                               : fmt::format(":value:({})", fmt::join(option.words, " "));
  return in_single_quotes(
      fmt::format("{}[{}]{}", option.names.back(), zsh_text(option.text), what));
}

std::string zsh(const std::vector<CommandText>& commands) {
  const auto below = words_below(commands);
  std::string cases;
  for (const auto& [name, next] : below) {
    cases += fmt::format("  '{}') compadd -- {} ;;\n", name, fmt::join(next, " "));
  }
  for (const CommandText& command : commands) {
    cases += fmt::format("  '{}') _arguments '*:file:_files'", command.name);
    for (const OptionText& option : command.options) {
      if (!option.positional) cases += " \\\n    " + zsh_option(option);
    }
    cases += " ;;\n";
  }
  return with(with(zsh_script, "@GROUPS@", groups_of(below)), "@CASES@", cases);
}

std::string fish(const std::vector<CommandText>& commands) {
  std::string lines =
      "# Completion of tessera for fish: tessera completion fish | source\n"
      "complete -c tessera -n __fish_use_subcommand -l version -d 'Print the version'\n";
  std::string heads;
  for (const CommandText& command : commands) {
    const std::size_t space = command.name.find(' ');
    const std::string head = command.name.substr(0, space);
    std::string when = "__fish_seen_subcommand_from " + head;
    if (space == std::string::npos) {
      lines += fmt::format("complete -c tessera -f -n __fish_use_subcommand -a {} -d {}\n", head,
                           in_single_quotes(command.text));
    } else {
      if (heads.find(" " + head + " ") == std::string::npos) {
        lines += fmt::format("complete -c tessera -f -n __fish_use_subcommand -a {}\n", head);
        heads += " " + head + " ";
      }
      const std::string tail = command.name.substr(space + 1);
      lines += fmt::format("complete -c tessera -f -n '{}' -a {} -d {}\n", when, tail,
                           in_single_quotes(command.text));
      when += "; and __fish_seen_subcommand_from " + tail;
    }
    for (const OptionText& option : command.options) {
      if (option.positional) continue;
      lines += fmt::format("complete -c tessera -n '{}' -l {} -d {}", when,
                           option.names.back().substr(2), in_single_quotes(option.text));
      if (!option.value.empty()) lines += " -r";
      if (!option.words.empty()) lines += fmt::format(" -f -a '{}'", fmt::join(option.words, " "));
      lines += '\n';
    }
  }
  return lines;
}

}  // namespace

std::string completion(const std::vector<CommandText>& commands, const std::string& shell) {
  if (shell == "bash") return bash(commands);
  return shell == "zsh" ? zsh(commands) : fish(commands);
}

}  // namespace tessera::cli
