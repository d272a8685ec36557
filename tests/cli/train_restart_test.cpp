// SPDX-License-Identifier: Apache-2.0
// `tessera train --load W --resume auto`: the first start of a fine-tuning run and its restarts.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {
namespace {

ProgramRun trained_on(const std::string& data, const std::string& options) {
  return run_tessera(
      "train gpt.json --batch 2 --steps 6 --threads 1 -q --data " + data + " " + options,
      "timeout 20");
}

bool says(const ProgramRun& run, const std::string& text) {
  UNSCOPED_INFO(run.messages);
  return run.messages.find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a fine-tuning run has one line for the first start and for restarts", "[cli][train]") {
  prepare();
  for (const char* old : {"tuned", "stray"}) std::filesystem::remove_all(run_folder() + old);
  REQUIRE(trained_on("text.txt", "--export begun.safetensors").exit_code == 0);
  const auto tuned = [](const std::string& options) {
    return run_tessera(
               "train gpt.json --data text.txt --batch 2 --threads 1 -q --schedule constant "
               "--load begun.safetensors " +
                   options,
               "timeout 20")
        .exit_code;
  };
  const std::string either = "--save tuned --resume auto ";
  const auto loss_of = [](const std::string& log) {
    return nlohmann::json::parse(text_of(log).substr(0, text_of(log).find('\n')))["loss"];
  };
  REQUIRE(tuned(either + "--steps 1 --json first.json") == 0);
  REQUIRE(tuned(either + "--steps 2 --json second.json") == 0);
  REQUIRE(tuned("--steps 2 --json whole.json") == 0);
  CHECK(loss_of("first.json") == loss_of("whole.json"));
  const std::string whole = text_of("whole.json");
  const auto last = nlohmann::json::parse(whole.substr(whole.find('\n') + 1));
  CHECK(loss_of("second.json") == last["loss"]);
  CHECK(tuned("--resume tuned --steps 3") == 2);
  CHECK(run_tessera("checkpoint verify tuned").output.ends_with(" in 1 file\n"));
  std::filesystem::create_directories(run_folder() + "stray");
  write("stray/step-000009", "");
  CHECK(says(trained_on("text.txt", "--save stray --json stray.json"),
             "stray/step-000009 is no folder, as checkpoints are"));
  CHECK_FALSE(std::filesystem::exists(run_folder() + "stray.json"));
}

}  // namespace tessera::test
