// SPDX-License-Identifier: Apache-2.0
// The tables of the manual are what the lists of options say. Pages that differ are written anew
// into the build folder, to be copied over those of docs/.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "engine/architectures/config_keys.h"
#include "tessera/scheme.h"
#include "tessera/training.h"

namespace tessera::test {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::string in_code(const std::vector<std::string>& words) {
  return "`" + joined(words, "`, `") + "`";
}

// Programs have defaults of their own for these, which the page says.
bool decided_by_command(const Option& option) {
  return option.name == "param_dtype" || option.name == "reduce_dtype" ||
         option.name == "sequence_length";
}

std::string default_of(const Option& option) {
  if (option.kind == OptionKind::flag) return "off";
  if (decided_by_command(option)) return "see above";
  const std::string text = to_text(option.standard);
  return text.empty() ? "" : "`" + text + "`";
}

std::string meaning_of(const Option& option) {
  std::string text = option.help;
  if (!option.words.empty()) text += ": " + in_code(option.words);
  if (!option.more.empty()) text += "; " + option.more;
  std::vector<std::string> needs;
  for (const OptionNeed& need : option.needs) {
    std::string flag = "--" + need.option;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const bool is_flag = need.words == std::vector<std::string>{"true"};
    needs.push_back("`" + flag + (is_flag ? "" : " " + joined(need.words, "|")) + "`");
  }
  if (!needs.empty()) text += "; needs " + joined(needs, " or ");
  return text;
}

std::string flag_table() {
  std::string text = "| option | for | default | meaning |\n| --- | --- | --- | --- |\n";
  for (const OptionFamily& family : option_families()) {
    for (const Option& option : family.options) {
      const auto& schemes = option.schemes.empty() ? family.schemes : option.schemes;
      text += "| `" + flag_of(option) + "` | " + in_code(schemes) + " | " + default_of(option) +
              " | " + meaning_of(option) + " |\n";
    }
  }
  return text;
}

std::string training_table() {
  std::string text = "| option | default | meaning |\n| --- | --- | --- |\n";
  for (const Option& option : training_options().options) {
    const std::string shown = option.name == "sequence_length" ? "`0`" : default_of(option);
    text += "| `" + flag_of(option) + "` | " + shown + " | " + meaning_of(option) + " |\n";
  }
  return text;
}

std::string json_table() {
  std::string text = "| scheme | options |\n| --- | --- |\n";
  for (const OptionFamily& family : option_families()) {
    std::vector<std::string> options;
    for (const Option& option : family.options) {
      const std::string only = option.schemes.empty() ? "" : "for " + in_code(option.schemes);
      std::vector<std::string> facts;
      if (!only.empty()) facts.push_back(only);
      if (!option.words.empty()) facts.push_back(in_code(option.words));
      if (option.kind == OptionKind::list) facts.push_back("list of strings");
      if (!option.unit.empty()) facts.push_back(option.unit);
      const std::string standard = to_text(option.standard);
      if (!standard.empty()) facts.push_back("default `" + standard + "`");
      options.push_back("`" + option.name + "` (" + joined(facts, ", ") + ")");
    }
    text += "| " + in_code(family.schemes) + " | " + joined(options, ", ") + " |\n";
  }
  return text;
}

std::string config_table() {
  std::string text = "| key | models | what trains | meaning |\n| --- | --- | --- | --- |\n";
  const auto spaced = [](std::string_view words) {
    std::string out = "`";
    for (const char c : words) out += c == ' ' ? std::string("`, `") : std::string(1, c);
    return out + "`";
  };
  for (const ConfigKey& key : config_keys()) {
    std::string acts = key.rule == KeyRule::acts ? "acts" : "below 1: acts while training, on CPUs";
    if (key.rule == KeyRule::none) acts = "changes nothing";
    if (key.rule == KeyRule::values) acts = key.values.empty() ? "refused" : spaced(key.values);
    text += "| `" + std::string(key.name) + "` | " +
            (key.models.empty() ? "all" : spaced(key.models)) + " | " + acts + " | " +
            std::string(key.meaning) + " |\n";
  }
  return text;
}

void check_table(const std::string& page, const std::string& name, const std::string& table) {
  const std::string path = std::string(TESSERA_SOURCE_DIR) + "/docs/" + page;
  std::ifstream file(path);
  std::ostringstream read;
  read << file.rdbuf();
  const std::string text = read.str();
  const std::string begin = "<!-- table: " + name + " -->\n";
  const std::string end = "<!-- end of table -->\n";
  const auto first = text.find(begin);
  REQUIRE(first != std::string::npos);
  const auto after = first + begin.size();
  const auto last = text.find(end, after);
  REQUIRE(last != std::string::npos);
  const bool same = text.substr(after, last - after) == table;
  const std::string folder = std::string(TESSERA_BINARY_DIR) + "/manual/";
  if (!same) {
    std::filesystem::create_directories(folder);
    std::ofstream(folder + page) << text.substr(0, after) << table << text.substr(last);
  }
  INFO("cp " << folder << page << " docs/" << page);
  CHECK(same);
}

TEST_CASE("the manual's tables of options are what the lists say", "[options][docs]") {
  check_table("cli.md", "options of schemes", flag_table());
  check_table("cli.md", "options of a training step", training_table());
  check_table("embedding.md", "options of schemes", json_table());
  check_table("model-format.md", "keys of config.json", config_table());
}

}  // namespace
}  // namespace tessera::test
