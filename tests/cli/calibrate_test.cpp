// SPDX-License-Identifier: Apache-2.0
// tessera calibrate by sweeps of kernels and by traces of real processes.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

nlohmann::json json_in(const std::string& name) {
  std::ifstream file(run_folder() + name);
  return nlohmann::json::parse(file);
}

std::string refusal(const std::string& arguments) {
  const ProgramRun run = run_tessera("calibrate " + arguments);
  INFO(run.output);
  CHECK(run.exit_code == 2);
  return run.messages;
}

void train(const std::string& trace, int batch, const std::string& more = "") {
  const ProgramRun run = run_tessera(
      "train net.json --data text.txt --runtime local --threads 1 --steps 5 -q --batch " +
      std::to_string(batch) + " --trace " + trace + more);
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
}

}  // namespace

TEST_CASE("a sweep of kernels becomes curves of a cluster file", "[cli][calibrate]") {
  std::ofstream log(run_folder() + "kernels.csv");
  log << "# tessera kernel sweep: a GPU\n# multiprocessors 100\n# attention flash2\n"
         "kernel,dtype,pass,m,n,k,batch,length,heads,key_value_heads,head_dim,us\n";
  for (const int m : {1024, 2048, 4096, 8192}) {
    log << "gemm,bf16,fwd," << m << ",4096,4096,,,,,," << m / 10 << "\n";
    log << "attention,bf16,fwd,,,,2," << m << ",16,16,128," << m / 4 << "\n";
  }
  log.close();
  const ProgramRun run = run_tessera("calibrate kernels.csv -o swept.json");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  CHECK(run.output.starts_with("swept.json: 8 kernels: matmuls "));
  const auto swept = json_in("swept.json");
  CHECK(swept["gpu"]["multiprocessors"] == 100);
  CHECK(swept["gpu"]["attention"].contains("flash1"));
  CHECK(run_tessera("cluster check swept.json").exit_code == 0);
  std::ofstream(run_folder() + "kernels.csv", std::ios::app)
      << "gemm,bf16,fwd,1024,4096,4096,,,,,,102\n";
  const ProgramRun again = run_tessera("calibrate kernels.csv -o swept.json");
  CHECK(again.output == run.output);
  CHECK(again.messages.find("kernels.csv: 1 rows are as others") != std::string::npos);
  CHECK(refusal("kernels.csv --least 1M -o x.json")
            .find("--least means nothing for a sweep of kernels") != std::string::npos);
  std::ofstream(run_folder() + "bad.csv") << "# tessera kernel sweep\ngemm,bf16\n";
  CHECK(refusal("bad.csv -o x.json").find("bad.csv, line 2: is no row of kernel,") !=
        std::string::npos);
}

TEST_CASE("traces of real runs become a machine that takes as long", "[cli][calibrate]") {
  std::ofstream(run_folder() + "net.json")
      << R"({"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
             "n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 32, "vocab_size": 256})";
  std::ofstream text(run_folder() + "text.txt");
  for (int k = 0; k < 80; ++k) text << "to measure is to see it all again. ";
  text.close();
  train("a.tessera", 2);
  train("b.tessera", 8);
  const std::string files = " -o machine.json --profile-output stack.json";
  const ProgramRun run = run_tessera("calibrate a.tessera b.tessera" + files);
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  CHECK(run.output.starts_with("a.tessera: "));
  CHECK(run.output.find("% by the others") != std::string::npos);
  const auto stack = json_in("stack.json");
  CHECK(stack["one_thread"] == true);
  CHECK(stack["calibrated_runs"] == 2);
  CHECK(stack["program"] == "train");
  CHECK(stack["parts"]["mlp"]["backward"]["factor"] >= 0);
  const ProgramRun simulated = run_tessera(
      "simulate net.json --batch 4 --cluster machine.json --profile stack.json -o c.tessera "
      "--json");
  INFO(simulated.messages);
  REQUIRE(simulated.exit_code == 0);
  const auto report = nlohmann::json::parse(simulated.output);
  CHECK(report["step_time_steady_ns"] > 0);
  CHECK(report["validated"]["step_time"]["text"].get<std::string>().find(
            "2 runs that the profile") != std::string::npos);
  CHECK(refusal("a.tessera -o x.json").find("add --profile-output") != std::string::npos);
  CHECK(refusal("a.tessera b.tessera --cluster dgx-h100" + files)
            .find("--cluster means nothing for traces of runs") != std::string::npos);
  CHECK(refusal("c.tessera" + files).find("was simulated") != std::string::npos);
  CHECK(refusal("a.tessera b.tessera -o net.json --profile-output stack.json")
            .find("--output net.json: exists and is no cluster file") != std::string::npos);
  CHECK(refusal("a.tessera b.tessera -o machine.json --profile-output text.txt")
            .find("--profile-output text.txt: exists and is no profile") != std::string::npos);
  CHECK(json_in("net.json").contains("n_embd"));
  CHECK(run_tessera("calibrate a.tessera b.tessera" + files).exit_code == 0);
  CHECK(refusal("a.tessera net.json" + files).find("has no row of nccl-tests") !=
        std::string::npos);
}

}  // namespace tessera::test
