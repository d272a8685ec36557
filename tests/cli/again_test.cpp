// SPDX-License-Identifier: Apache-2.0
// `tessera simulate --again`: a trace says how to make it again.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

std::string bytes_of(const std::string& name) {
  std::ifstream file(run_folder() + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void copy_model(const std::string& name) {
  std::filesystem::copy_file(example_model(name), run_folder() + "copy.json",
                             std::filesystem::copy_options::overwrite_existing);
}

TEST_CASE("a trace is made again byte for byte, whatever became of the files", "[cli][again]") {
  const std::string options = GENERATE(
      as<std::string>{}, "",
      "--jitter 0.3 --slow-rank 3:1.5 --slow-rank 1:1.25 --seed 18446744073709551615",
      "--scheme fully_shard --max-input-buffers 3 --shard-group 4",
      "--scheme fully_shard --wrap GPT2MLP --ignore-parameters h.1.ln_1.weight",
      "--scheme hybrid_shard --shard-group 2 --forward-prefetch --accumulation 2 --no-sync",
      "--scheme replicate --ignore-modules h.1 --comm-hook powersgd --no-init-sync --nodes 2",
      "--scheme sharded_data_parallel --process-groups '0 1,3 2,4 5,6 7' --broadcast-dtype bf16",
      "--scheme zero1 --reduce-bucket 1000 --passes eval,train,train,step --record-ranks 1,5-6",
      "--nodes 2 --slow-link 1:1.5 --scheme fully_shard --shard-group 8",
      "--nodes 16 --record-ranks 0,slowest --record-steps 1 --no-record-memory",
      "--scheme zero3 --policy compatible --quantized-gradients --max-grad-norm 0.1 "
      "--checkpointing full --batch 3 --sequence-length 40",
      "--cluster dgx-2 --scheme zero3 --offload-param nvme --offload-optimizer nvme "
      "--nvme-smallest 100 --pipeline-read --sub-group-size 5000");
  INFO(options);
  copy_model("gpt-tiny");
  const ProgramRun first =
      run_tessera("simulate copy.json --steps 2 -q -o first.tessera " + options);
  INFO(first.messages);
  REQUIRE(first.exit_code == 0);
  std::filesystem::remove(run_folder() + "copy.json");
  const ProgramRun again = run_tessera("simulate --again first.tessera -o second.tessera");
  INFO(again.messages);
  CHECK(again.exit_code == 0);
  CHECK(again.output.find("second.tessera is first.tessera, byte for byte") != std::string::npos);
  CHECK(bytes_of("first.tessera") == bytes_of("second.tessera"));
}

TEST_CASE("a trace of some steps has all summaries, and what it says is of those steps", "[cli]") {
  copy_model("gpt-tiny");
  const std::string simulate = "simulate copy.json --steps 6 --jitter 0.2 -q -o ";
  REQUIRE(run_tessera(simulate + "all.tessera").exit_code == 0);
  REQUIRE(run_tessera(simulate + "some.tessera --record-steps 2-3 --no-record-memory").exit_code ==
          0);
  const auto json = [](const std::string& command) {
    const ProgramRun run = run_tessera(command);
    INFO(run.messages);
    REQUIRE(run.exit_code == 0);
    return nlohmann::json::parse(run.output);
  };
  const auto all = json("report --json all.tessera"), some = json("report --json some.tessera");
  CHECK(all["steps"] == some["steps"]);
  CHECK(some["critical_path"]["step"].get<int>() / 2 == 1);
  CHECK(some["critical_path"]["rows"].size() > 3);
  const ProgramRun text = run_tessera("report some.tessera");
  CHECK(text.output.find("of the steps 2 to 3, the only ones") != std::string::npos);
  const std::string counts =
      "\"SELECT (SELECT count(DISTINCT step) FROM op_rank), (SELECT count(*) FROM memory_sample),"
      " (SELECT count(DISTINCT step) FROM rank_step)\"";
  CHECK(run_tessera("query some.tessera --csv " + counts).output.find("\n2,0,6\n") !=
        std::string::npos);
  const auto compared = json("compare --json all.tessera some.tessera");
  CHECK(compared["steps"] == 2);
  CHECK(compared["matched_share"] == 1);
  CHECK(compared["a"] == compared["b"]);
  const ProgramRun apart = run_tessera(simulate + "late.tessera --record-steps 5");
  CHECK(apart.exit_code == 0);
  CHECK(run_tessera("compare late.tessera some.tessera").exit_code == 2);
}

TEST_CASE("a configuration of DeepSpeed is in the trace that it made", "[cli][again]") {
  std::ofstream(run_folder() + "ds.json") << R"({"train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2, "bf16": {"enabled": true}, "zero_optimization": {"stage": 3,
    "stage3_param_persistence_threshold": 0, "mics_shard_size": 4}})";
  REQUIRE(run_tessera("simulate '" + example_model("gpt-tiny") +
                      "' --deepspeed ds.json --steps 2 -q -o first.tessera")
              .exit_code == 0);
  std::filesystem::remove(run_folder() + "ds.json");
  CHECK(run_tessera("simulate --again first.tessera -q").exit_code == 0);
  CHECK(bytes_of("first.tessera") == bytes_of("first-again.tessera"));
}

TEST_CASE("what cannot be made again is refused with a reason", "[cli][again]") {
  const auto refusal = [](const std::string& arguments) {
    const ProgramRun run = run_tessera("simulate " + arguments);
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  const std::string model = "'" + example_model("tiny") + "'";
  REQUIRE(run_tessera("simulate " + model + " -q -o first.tessera").exit_code == 0);
  CHECK(refusal("--again first.tessera --steps 3") ==
        "tessera: --steps: --again takes everything from the trace: leave it out\n");
  CHECK(refusal(model + " --again first.tessera").find("MODEL: --again takes") !=
        std::string::npos);
  CHECK(refusal("--again first.tessera -o first.tessera").find("another --output") !=
        std::string::npos);
  CHECK(refusal("--again missing.tessera").find("missing.tessera") != std::string::npos);
}

}  // namespace
}  // namespace tessera::test
