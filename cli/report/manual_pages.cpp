// SPDX-License-Identifier: Apache-2.0
// Pages of the manual in the macros of man(7).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "cli/report/command_list.h"

namespace tessera::cli {
namespace {

std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string with_dashes(std::string name) {
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string page_heading(const std::string& page, const std::string& version,
                         const std::string& text) {
  return fmt::format(
      ".\\\" SPDX-License-Identifier: Apache-2.0\n.TH {} 1 \"\" \"tessera {}\" \"User Commands\"\n"
      ".SH NAME\n{} \\- {}\n",
      page, version, roff(page), roff(text));
}

std::string option_entry(const OptionText& option) {
  std::string entry =
      fmt::format(".TP\n\\fB{}\\fR", roff(fmt::format("{}", fmt::join(option.names, ", "))));
  if (!option.value.empty()) entry += " \\fI" + roff(option.value) + "\\fR";
  entry += "\n" + roff(option.text.empty() ? option.names.back() : option.text) + "\n";
  if (!option.usual.empty() && option.usual != "false" && option.usual != "[]") {
    entry += ".br\nDefault: " + roff(option.usual) + "\n";
  }
  return entry;
}

// "Examples:" with lines of the program, then sentences.
std::string notes_of(const std::string& text) {
  std::string out;
  std::istringstream lines(text);
  bool examples = false;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Examples:") {
      out += ".SH EXAMPLES\n.nf\n";
      examples = true;
    } else if (examples && line.empty()) {
      out += ".fi\n.SH NOTES\n";
      examples = false;
    } else {
      out += roff(line) + "\n";
    }
  }
  return examples ? out + ".fi\n" : out;
}

std::string page_of(const CommandText& command, const std::string& version) {
  std::string page = page_heading("tessera-" + with_dashes(command.name), version, command.text);
  page += fmt::format(".SH SYNOPSIS\n\\fBtessera {}\\fR [\\fIOPTIONS\\fR]", roff(command.name));
  for (const OptionText& option : command.options) {
    if (option.positional) page += " \\fI" + roff(option.names[0]) + "\\fR";
  }
  page += "\n";
  std::string arguments;
  std::vector<std::string> groups;
  for (const OptionText& option : command.options) {
    if (option.positional) {
      arguments += option_entry(option);
    } else if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) {
      groups.push_back(option.group);
    }
  }
  if (!arguments.empty()) page += ".SH ARGUMENTS\n" + arguments;
  page += ".SH OPTIONS\n";
  for (const std::string& group : groups) {
    if (group != "Options") page += fmt::format(".SS \"{}\"\n", roff(group));
    for (const OptionText& option : command.options) {
      if (!option.positional && option.group == group) page += option_entry(option);
    }
  }
  return page + notes_of(command.footer) + ".SH SEE ALSO\n\\fBtessera\\fR(1)\n";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> manual_pages(
    const std::vector<CommandText>& commands, const std::string& version) {
  std::vector<std::pair<std::string, std::string>> pages;
  std::string first =
      page_heading("tessera", version,
                   "sharded training on real GPUs or simulated clusters, recorded and "
                   "shown");
  first += ".SH SYNOPSIS\n\\fBtessera\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
  for (const CommandText& command : commands) {
    first += fmt::format(".TP\n\\fBtessera\\-{}\\fR(1)\n{}\n", roff(with_dashes(command.name)),
                         roff(command.text));
    pages.emplace_back("tessera-" + with_dashes(command.name) + ".1", page_of(command, version));
  }
  pages.insert(pages.begin(), {"tessera.1", std::move(first)});
  return pages;
}

}  // namespace tessera::cli
