// SPDX-License-Identifier: Apache-2.0
// What shells and man know of the program is what its help says.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/cli/flags.h"
#include "tests/cli/program.h"

namespace tessera::test {
namespace {

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string dashed(std::string text) {
  for (char& c : text) c = c == ' ' ? '-' : c;
  return text;
}

// What bash offers behind `words`, of which the last one is begun.
std::string offered(const std::vector<std::string>& words) {
  std::string line = "cd '" + run_folder() +
                     "'; eval \"$('" TESSERA_PROGRAM "' completion bash)\"; COMP_WORDS=(tessera";
  for (const std::string& word : words) line += " '" + word + "'";
  line += "); COMP_CWORD=" + std::to_string(words.size()) +
          "; _tessera; echo \"${COMPREPLY[@]}\" > offered.txt\n";
  const std::string script = run_folder() + "offer.sh";
  {
    std::ofstream file(script);
    file << line;
  }
  REQUIRE(std::system(("bash '" + script + "'").c_str()) == 0);
  return content_of(run_folder() + "offered.txt");
}

}  // namespace

TEST_CASE("every sub-command and flag is in every script and page", "[cli][completion]") {
  const auto bash = run_tessera("completion bash").output;
  const auto zsh = run_tessera("completion zsh").output;
  const auto fish = run_tessera("completion fish").output;
  const std::string pages = run_folder() + "pages/";
  std::filesystem::remove_all(pages);
  REQUIRE(run_tessera("completion man --output pages").exit_code == 0);
  const std::string first = content_of(pages + "tessera.1");
  for (const std::string& command : sub_commands()) {
    INFO(command);
    const std::string name = dashed(command);
    std::string page = content_of(pages + "tessera-" + name + ".1");
    CHECK(page.find(".SH NAME") != std::string::npos);
    CHECK(page.find(".SH EXAMPLES") != std::string::npos);
    std::string escaped;
    for (const char c : name) escaped += c == '-' ? "\\-" : std::string(1, c);
    CHECK(first.find("tessera\\-" + escaped) != std::string::npos);
    CHECK(bash.find("'" + command + "') words=") != std::string::npos);
    CHECK(zsh.find("'" + command + "') _arguments") != std::string::npos);
    for (const std::string& flag : flags_of(command)) {
      INFO(flag);
      std::string in_roff;
      for (const char c : flag) in_roff += c == '-' ? "\\-" : std::string(1, c);
      CHECK(page.find(in_roff) != std::string::npos);
      CHECK(zsh.find("'" + flag + "[") != std::string::npos);
      CHECK(fish.find(" -l " + flag.substr(2) + " ") != std::string::npos);
    }
  }
}

TEST_CASE("bash offers sub-commands, flags and the words of an option", "[cli][completion]") {
  CHECK(offered({"simu"}) == "simulate\n");
  CHECK(offered({"trace", "ver"}) == "verify\n");
  CHECK(offered({"simulate", "--offload-op"}) == "--offload-optimizer\n");
  CHECK(offered({"simulate", "config.json", "--offload-optimizer", ""}) == "none cpu nvme\n");
  CHECK(offered({"trace", "export", "--form"}) == "--format\n");
  CHECK(offered({"report", "run"}) == "\n");  // files, which bash finds itself
}

TEST_CASE("a shell that is not known, and pages without a folder, are refused",
          "[cli][completion]") {
  const ProgramRun shell = run_tessera("completion csh");
  CHECK(shell.exit_code == 2);
  CHECK(shell.messages.find("zsh") != std::string::npos);
  const ProgramRun pages = run_tessera("completion man");
  CHECK(pages.exit_code == 2);
  CHECK(pages.messages == "tessera: pages of man are files: add --output FOLDER\n");
  CHECK(run_tessera("completion bash --output /nowhere/x").exit_code == 2);
}

}  // namespace tessera::test
