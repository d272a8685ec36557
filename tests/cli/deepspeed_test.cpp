// SPDX-License-Identifier: Apache-2.0
// --deepspeed on the command line.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

const std::string tiny = "'" + example_model("tiny") + "'";

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string ops_with(const std::string& json) {
  const std::string file = run_folder() + "ds_config.json";
  std::ofstream(file) << json;
  return "ops " + tiny + " --ranks 2 --deepspeed '" + file + "' ";
}

TEST_CASE("DeepSpeed's configuration chooses scheme, sizes and step", "[cli]") {
  const std::string ops = ops_with(
      R"({"train_batch_size": 12, "train_micro_batch_size_per_gpu": 3, "steps_per_print": 5,
          "gradient_clipping": "auto", "bf16": {"enabled": true},
          "zero_optimization": {"stage": 2}})");
  const ProgramRun run = run_tessera(ops);
  CHECK(run.exit_code == 0);
  CHECK(contains(run.output, "reduce "));
  CHECK(contains(run.output, "bfloat16"));
  CHECK(contains(run.messages, "no meaning here: steps_per_print"));
  CHECK(run_tessera(ops + "--batch 3 --max-grad-norm 1").exit_code == 0);
  const ProgramRun contradicted = run_tessera(ops + "--batch 4");
  CHECK(contradicted.exit_code == 2);
  CHECK(contains(contradicted.messages, "train_micro_batch_size_per_gpu 3: leave one out"));
  const ProgramRun decided = run_tessera(ops + "--reduce-bucket 5");
  CHECK(decided.exit_code == 2);
  CHECK(contains(decided.messages, "--reduce-bucket: the file of --deepspeed decides"));
  CHECK(run_tessera(ops + "--param-dtype fp32").exit_code == 2);
}

TEST_CASE("mistakes in DeepSpeed's configuration are named", "[cli]") {
  const ProgramRun ignored = run_tessera(ops_with(R"({"train_batch_sise": 12})"));
  CHECK(ignored.exit_code == 0);
  CHECK(contains(ignored.messages, "does not look at: train_batch_sise (did you mean "));
  const ProgramRun run = run_tessera(ops_with(R"({"zero_optimization": {"stagee": 1}})"));
  CHECK(run.exit_code == 2);
  CHECK(contains(run.messages, "did you mean \"stage\"?"));
  // Four ranks would do.
  CHECK(run_tessera(ops_with(R"({"train_batch_size": 3})")).exit_code == 2);
}

TEST_CASE("the example configurations can be simulated", "[cli]") {
  const std::string llama = "'" + example_model("llama-3-8b") + "'";
  for (const std::string name : {"zero2", "zero3"}) {
    const std::string file = TESSERA_SOURCE_DIR "/examples/deepspeed/" + name + ".json";
    REQUIRE(run_tessera("simulate " + llama + " --nodes 2 --deepspeed '" + file +
                        "' --steps 2 -q -o ds.tessera")
                .exit_code == 0);
    const auto json = nlohmann::json::parse(run_tessera("report ds.tessera --json").output);
    CHECK(json["run"]["scheme"] == name);
  }
}

TEST_CASE("estimate shows formulas beside what is simulated", "[cli]") {
  const std::string llama = "'" + example_model("llama-3-8b") + "'";
  const auto json =
      nlohmann::json::parse(run_tessera("estimate " + llama + " --nodes 2 --json").output);
  REQUIRE(json["stages"].size() == 3);
  for (const auto& stage : json["stages"]) {
    const auto& seen = stage["simulated"];
    std::int64_t sum = 0;
    for (const auto& [key, bytes] : seen.items()) {
      if (key != "total_bytes") sum += bytes.get<std::int64_t>();
    }
    CHECK(sum == seen["total_bytes"]);
    CHECK(seen["total_bytes"] > stage["paper_bytes"]);  // as users of the estimators report
    CHECK(contains(stage["validated"]["memory"]["text"], "peak memory"));
  }
  CHECK(json["stages"][0]["deepspeed_bytes"].is_null());
  CHECK(contains(run_tessera("estimate " + tiny).output, "DeepSpeed 0.19 says"));
}

TEST_CASE("estimate refuses more ranks than it would answer for in minutes", "[cli]") {
  const ProgramRun run =
      run_tessera("estimate '" + example_model("gpt-tiny") + "' --nodes 1000000");
  CHECK(run.exit_code == 2);
  CHECK(contains(run.messages, "8000000 ranks: zero1 is simulated for at most 32768"));
}

TEST_CASE("estimate says what does not fit a GPU, and takes no sequences that a model does not",
          "[cli]") {
  const std::string llama = "estimate '" + example_model("llama-3-8b") + "' --nodes 2";
  const auto json = nlohmann::json::parse(run_tessera(llama + " --batch 4 --json").output);
  for (const auto& stage : json["stages"]) {
    CHECK(stage["fits"] == (stage["simulated"]["total_bytes"] <= stage["available_bytes"]));
  }
  CHECK(json["stages"][0]["fits"] == false);
  const ProgramRun run = run_tessera(llama + " --sequence-length 8193");
  CHECK(run.exit_code == 2);
  CHECK(contains(run.messages, "takes at most 8192 tokens"));
}

}  // namespace
}  // namespace tessera::test
