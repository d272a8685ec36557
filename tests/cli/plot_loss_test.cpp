// SPDX-License-Identifier: Apache-2.0
// scripts/plot-loss draws a log of `tessera train --json`, and nothing that it would have to guess.
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

ProgramRun plotted(const std::string& log) {
  std::ofstream(run_folder() + "plotted.json", std::ios::binary) << log;
  return run_tessera("plotted.json", "", TESSERA_SOURCE_DIR "/scripts/plot-loss");
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

}  // namespace

TEST_CASE("losses are a curve with gaps where there is none", "[cli][plot]") {
  const ProgramRun whole = plotted(
      "{\"step\":1,\"loss\":3,\"validation_loss\":4}\n{\"step\":2,\"loss\":2.5e+0,\"ms\":1}\n");
  CHECK(whole.exit_code == 0);
  CHECK(whole.messages.empty());
  CHECK(count(whole.output, "<polyline") == 1);
  CHECK(count(whole.output, "<circle") == 1);  // the validation
  const ProgramRun gap =
      plotted("{\"step\":1,\"loss\":3}\n{\"step\":2,\"loss\":null}\n{\"step\":3,\"loss\":2}\n");
  CHECK(gap.exit_code == 0);
  CHECK(count(gap.output, "<circle") == 2);
  CHECK(gap.messages.find("no finite numbers leave gaps: 1") != std::string::npos);
  CHECK(count(plotted("{\"step\":1,\"loss\":1e30}").output, "<path") < 20);
}

TEST_CASE("what is no log is refused with its line, and nothing is drawn", "[cli][plot]") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "has no step"},
      {"step,loss\n1,2\n", "line 1 is no step of a log"},
      {"{\"step\":1,\"loss\":2}\n{\"step\":2,\"lo", "line 2 is no step of a log"},
      {"{\"step\":1}\n", "line 1 is no step of a log"},
      {"{\"loss\":1}\n", "line 1 is no step of a log"},
      {"{\"step\":1,\"loss\":NaN}\n", "line 1 is no step of a log"},
      {"[{\"step\":1,\"loss\":2}]\n", "line 1 is no step of a log"},
      {"{\"step\":1,\"loss\":null}\n", "no loss is a finite number"},
      {"{\"step\":3,\"loss\":2}\n{\"step\":1,\"loss\":2}\n", "line 2 goes back to step 1"}};
  for (const auto& [log, why] : cases) {
    INFO(log);
    const ProgramRun run = plotted(log);
    CHECK(run.exit_code == 2);
    CHECK(run.output.empty());
    CHECK(run.messages.find(why) != std::string::npos);
  }
}

}  // namespace tessera::test
