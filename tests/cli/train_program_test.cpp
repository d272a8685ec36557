// SPDX-License-Identifier: Apache-2.0
// tessera simulate --profile train holds what tessera train holds.
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

nlohmann::json report_of(const ProgramRun& run) {
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.output);
}

// One node of as many GPUs as there are ranks.
void write_files(int ranks) {
  auto cluster = nlohmann::json::parse(run_tessera("cluster show dgx-h100").output);
  cluster["gpus_per_node"] = ranks;
  std::ofstream(run_folder() + "node.json") << cluster.dump();
  std::ofstream(run_folder() + "llama.json")
      << R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2,
             "intermediate_size": 88, "vocab_size": 256, "num_attention_heads": 4,
             "num_key_value_heads": 2, "max_position_embeddings": 32})";
  std::ofstream(run_folder() + "gpt2.json")
      << R"({"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new",
             "n_embd": 32, "n_head": 2, "n_layer": 2, "n_positions": 32, "vocab_size": 256})";
  std::ofstream text(run_folder() + "text.txt");
  for (int k = 0; k < 80; ++k) text << "what is held is what is planned. ";
}

}  // namespace

TEST_CASE("without numbers a training run holds the same bytes", "[cli][simulate]") {
  write_files(2);
  struct Case {
    std::string run, dtype, param_dtype;  // of train, of simulate
  };
  for (const auto& [run, dtype, param_dtype] :
       std::vector<Case>{{"llama.json --scheme fully_shard --batch 3", "", ""},
                         {"gpt2.json --scheme full_shard --batch 2", "", ""},
                         {"llama.json --scheme zero1 --batch 2 --accumulation 2", "", ""},
                         {"gpt2.json --scheme zero3 --batch 2 --checkpointing full",
                          " --dtype float16", " --param-dtype fp16"},
                         {"llama.json --scheme replicate --batch 2 --max-grad-norm 1", "", ""},
                         {"llama.json --scheme fully_shard --batch 2 --recompute norm,qkv", "", ""},
                         {"gpt2.json --scheme zero3 --batch 2 --recompute ffn,attention",
                          " --dtype bf16", " --param-dtype bf16"},
                         {"llama.json --scheme zero2 --batch 2 --matmul-dtype fp8", "", ""},
                         {"gpt2.json --scheme zero2 --batch 2 --recompute activation "
                          "--optimizer-dtype bf16",
                          "", ""}}) {
    CAPTURE(run);
    const ProgramRun trained = run_tessera("train " + run + dtype +
                                           " --data text.txt --runtime simulator --ranks 2 "
                                           "--threads 1 --steps 2 -q --trace trained.tessera");
    INFO(trained.messages);
    REQUIRE(trained.exit_code == 0);
    const auto real = report_of(run_tessera("report trained.tessera --json"));
    const auto simulated = report_of(run_tessera("simulate " + run + param_dtype +
                                                 " --profile train --cluster node.json --steps 2 "
                                                 "--json -o simulated.tessera"));
    CHECK(simulated["memory"] == [&] {
      auto memory = real["memory"];
      memory["headroom_bytes"] = simulated["memory"]["headroom_bytes"];  // train has no capacity
      return memory;
    }());
    CHECK(simulated["validated"]["memory"]["text"].get<std::string>().find("to the byte") !=
          std::string::npos);
    const ProgramRun again = run_tessera("simulate --again simulated.tessera -q");
    CHECK(again.exit_code == 0);
  }
}

TEST_CASE("what a training program has not is refused of its simulation", "[cli][simulate]") {
  write_files(2);
  const auto refused = [](const std::string& flags) {
    const ProgramRun run = run_tessera("simulate llama.json --profile train --cluster node.json " +
                                       flags + " -o refused.tessera");
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  CHECK(refused("--checkpointing operators").find("choose full or none") != std::string::npos);
  CHECK(refused("--optimizer-dtype int8").find("float32") != std::string::npos);
  CHECK(refused("--recompute norm --param-dtype bf16").find("leave norm out") != std::string::npos);
  for (const std::string flag :
       {"--attention-kernel unfused", "--loss chunked", "--allocator pytorch", "--no-dropout"}) {
    CHECK(refused(flag).find("means nothing to profile train") != std::string::npos);
  }
  CHECK(refused("--matmul-dtype bf16").find("where parameters are float32") != std::string::npos);
  CHECK(refused("--optimizer-states 1").find("keeps 2") != std::string::npos);
}

}  // namespace tessera::test
