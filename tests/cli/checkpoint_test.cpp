// SPDX-License-Identifier: Apache-2.0
// `tessera checkpoint` as a user calls it.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/safetensors.h"
#include "tests/checkpoint/written_files.h"
#include "tests/cli/program.h"

namespace tessera::test {
namespace {

// A folder with checkpoints of steps 3 and 4.
std::string saved(const std::string& name) {
  const std::string path = run_folder() + name;
  for (const std::int64_t step : {3, 4}) {
    const Status status = write_files(system_files(), step, 2, path);
    INFO(status.message());
    REQUIRE(status.ok());
  }
  return path;
}

TEST_CASE("checkpoint explains itself", "[cli]") {
  const ProgramRun run = run_tessera("checkpoint --help");
  CHECK(run.exit_code == 0);
  CHECK(run.output.find("Examples:") != std::string::npos);
  CHECK(run.output.find("Exit codes:") != std::string::npos);
  CHECK(run_tessera("checkpoint").exit_code == 2);
}

TEST_CASE("checkpoint info shows the newest checkpoint of a folder", "[cli]") {
  const std::string path = saved("info");
  const ProgramRun text = run_tessera("checkpoint info " + path);
  CHECK(text.exit_code == 0);
  for (const char* shown : {"step-000004", "scheme on 2 ranks", "a.weight", "[3, 5]", "sampler"}) {
    INFO(shown);
    CHECK(text.output.find(shown) != std::string::npos);
  }
  const ProgramRun json = run_tessera("checkpoint info --json " + path + "/step-000003");
  CHECK(json.exit_code == 0);
  const auto info = nlohmann::json::parse(json.output);
  CHECK(info["step"] == 3);
  CHECK(info["model"] == "model");
  CHECK(info["elements"] == 19);
  CHECK(info["parameters"][0]["steps"] == 2);
  CHECK(info["files"].size() == 2);
}

TEST_CASE("checkpoint verify finds a damaged byte", "[cli]") {
  const std::string path = saved("verify");
  const ProgramRun whole = run_tessera("checkpoint verify " + path);
  CHECK(whole.exit_code == 0);
  CHECK(whole.output.find("is whole") != std::string::npos);
  CHECK(whole.output.find(" in 2 files\n") != std::string::npos);
  const std::string file = path + "/step-000004/rank-00001.0.safetensors";
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary)
      .seekp(-1, std::ios::end)
      .put(7);
  const ProgramRun damaged = run_tessera("checkpoint verify " + path);
  CHECK(damaged.exit_code == 2);
  CHECK(damaged.messages ==
        "tessera: " + file + ": the data of value/2/b.bias are damaged: load another checkpoint\n");
}

TEST_CASE("checkpoint export writes one safetensors file", "[cli]") {
  const std::string path = saved("export");
  const std::string file = run_folder() + "exported.safetensors";
  const ProgramRun run =
      run_tessera("checkpoint export " + path + " " + file + " --dtype bfloat16");
  INFO(run.messages);
  CHECK(run.exit_code == 0);
  auto weights = SafetensorsFile::open(file);
  REQUIRE(weights.ok());
  REQUIRE(weights->tensors().size() == 2);
  CHECK(weights->find("a.weight")->shape == std::vector<std::int64_t>{3, 5});
  CHECK(weights->find("a.weight")->dtype == DType::bfloat16);
  CHECK(run_tessera("checkpoint export " + path + " " + path).messages ==
        "tessera: " + path + ": is a folder: name the file that is to be written\n");
  CHECK(run_tessera("checkpoint export " + path + " " + file + " --dtype int8").exit_code == 2);
}

TEST_CASE("checkpoint export writes over no part of the checkpoint", "[cli]") {
  const std::string step = saved("kept") + "/step-000004/";
  for (const auto& [file, what] :
       {std::pair{"manifest.json", "the checkpoint's manifest"},
        std::pair{"rank-00000.0.safetensors", "a part of the checkpoint"}}) {
    const ProgramRun run = run_tessera("checkpoint export " + run_folder() + "kept " + step + file);
    CHECK(run.exit_code == 2);
    CHECK(run.messages ==
          "tessera: FILE " + step + file + " is read as " + what + ": choose another name\n");
  }
  CHECK(run_tessera("checkpoint verify " + step).exit_code == 0);
}

}  // namespace
}  // namespace tessera::test
