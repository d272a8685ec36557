// SPDX-License-Identifier: Apache-2.0
// Recorded DeepSpeed runs, from the program: other passes than training, other models than one.
#include <catch2/catch.hpp>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

const std::string recorded =
    " --ranks 2 --scheme zero3 --policy compatible --param-dtype fp32 --max-reuse-distance 0 "
    "--persistence-threshold 0 --reduce-bucket 1000 --format deepspeed ";

// Without the coordinator's counters, which follow from the rest.
std::string golden(const std::string& name) {
  std::ifstream file(std::string(TESSERA_SOURCE_DIR) + "/tests/golden/deepspeed/" + name);
  REQUIRE(file);
  std::string text;
  for (std::string line; std::getline(file, line);) {
    text += std::regex_replace(line, std::regex(" avail=.* queue=.*$"), "") + "\n";
  }
  return text;
}

TEST_CASE("ops prints recorded DeepSpeed runs with evaluation and external parameters",
          "[cli][golden]") {
  const std::string net3 = "ops '" + example_model("net3") + "'" + recorded;
  CHECK(run_tessera(net3 + "--prefetch-bucket 0 --steps 3").output == golden("base.txt"));
  CHECK(run_tessera(net3 + "--prefetch-bucket 1000 --passes "
                           "train,step,train,step,eval,train,step,eval,train,step,train,step")
            .output == golden("eval.txt"));
  std::ofstream(run_folder() + "external.json") << R"({"tessera_model": 1, "name": "external",
    "root": {"class": "Net", "modules": [
      {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [4, 4]}]},
      {"name": "c", "class": "Reader", "modules": [
        {"name": "lin", "class": "Linear", "parameters": [{"name": "w", "shape": [3, 4]}]}]}]},
    "reads": [["c", "a.w"]]})";
  CHECK(run_tessera("ops external.json" + recorded + "--prefetch-bucket 0 --steps 4").output ==
        golden("external.txt"));
}

TEST_CASE("zero1 reduces in the last micro-batch, as DeepSpeed does, zero2 in all", "[cli]") {
  const auto reductions = [](const std::string& options) {
    const std::string text = run_tessera("ops '" + example_model("net3") +
                                         "' --ranks 2 --steps 1 --format fsdp " + options)
                                 .output;
    const char* const sign = "[nccl] reduce";
    std::size_t count = 0;
    for (std::size_t at = text.find(sign); at != text.npos; at = text.find(sign, at + 1)) {
      ++count;
    }
    return count;
  };
  REQUIRE(reductions("--scheme zero1") > 0);
  CHECK(reductions("--scheme zero1 --accumulation 3") == reductions("--scheme zero1"));
  CHECK(reductions("--scheme zero2 --accumulation 3") == 3 * reductions("--scheme zero2"));
}

TEST_CASE("summon gathers full parameters in each step, and train alone does not",
          "[cli][summon]") {
  for (const auto& [scheme, gathers] : {std::pair<std::string, std::string>{"fully_shard", "5"},
                                        {"zero3", "27"},
                                        {"replicate", "0"}}) {
    const auto summoned = [&, &of = scheme](const std::string& passes) {
      const ProgramRun run =
          run_tessera("simulate '" + example_model("gpt-tiny") + "' --scheme " + of +
                      " --nodes 1 --steps 6 -q -o summon.tessera --passes " + passes);
      INFO(run.messages);
      CHECK(run.exit_code == 0);
      return run_tessera(
                 "query summon.tessera \"SELECT count(*) AS n FROM op_view WHERE step = 5 AND "
                 "kind = 'all_gather' AND reason = 'summon'\" --csv")
          .output;
    };
    CAPTURE(scheme);
    CHECK(summoned("train,step") == "n\n0\n");
    CHECK(summoned("train,summon,step") == "n\n" + gathers + "\n");
  }
}

TEST_CASE("what was decided before a failure is printed", "[cli]") {
  const ProgramRun run = run_tessera("ops '" + example_model("net3") + "'" + recorded +
                                     "--prefetch-bucket 30 --passes train,step,train:short,step");
  CHECK(run.exit_code == 2);
  CHECK(run.output.find("INVALIDATE step=2 mod=c") != std::string::npos);
  CHECK(run.messages.find("tessera: still have inflight params, b.w") == 0);
}

TEST_CASE("passes that make no sense are refused by name", "[cli][errors]") {
  const std::string ops = "ops '" + example_model("net3") + "' --passes ";
  for (const auto& [passes, part] :
       {std::pair<std::string, std::string>{"train,stop",
                                            "--passes 'stop': give train, accumulate"},
        {"train:,step", "--passes 'train:'"},
        {"train,", "--passes ''"},
        {"train:long,step", "--passes train:long: net3 has no graph 'long'"},
        {"step:short", "--passes 'step:short'"},
        {"summon:short", "--passes 'summon:short'"},
        {"accumulate,train,step --scheme zero3", "accumulate in --passes means nothing to"},
        {"train,step --accumulation 2", "--accumulation means nothing with --passes"},
        {"train:short,step", "training along the graph 'short' is nothing"}}) {
    CAPTURE(passes);
    const ProgramRun run = run_tessera(ops + passes);
    CHECK(run.exit_code == 2);
    CHECK(run.messages.find(part) != std::string::npos);
  }
  for (const std::string idle : {"step", "forward,forward,step", "eval,summon,step"}) {
    const ProgramRun untrained =
        run_tessera("simulate '" + example_model("gpt-tiny") + "' -q --passes " + idle);
    INFO(idle << untrained.messages);
    CHECK(untrained.exit_code == 2);
    CHECK(untrained.messages.find("none of the passes trains") != std::string::npos);
  }
  const ProgramRun simulated =
      run_tessera("simulate '" + example_model("net3") +
                  "' --scheme zero3 --passes train,step,train -q -o passes.tessera");
  CHECK(simulated.exit_code == 2);
  CHECK(simulated.messages.find("must end with their only optimizer step") != std::string::npos);
}

}  // namespace
}  // namespace tessera::test
