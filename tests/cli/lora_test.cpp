// SPDX-License-Identifier: Apache-2.0
// Training adapters beside a frozen model: the same bits anywhere, resumed, merged, written for
// PEFT.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/safetensors.h"
#include "tests/cli/program.h"
#include "tests/require_ok.h"

namespace tessera::test {
namespace {

using nlohmann::json;

const std::vector<std::pair<std::string, std::string>> architectures = {
    {"gpt", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 16,
        "n_head": 2, "n_layer": 2, "n_positions": 16, "vocab_size": 256})"},
    {"llama", R"({"model_type": "llama", "vocab_size": 256, "hidden_size": 16,
        "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "max_position_embeddings": 16})"}};

void prepare_base(const std::string& name, const std::string& config) {
  std::ofstream(run_folder() + name + ".json") << config;
  std::ofstream text(run_folder() + "text.txt");
  for (int k = 0; k < 40; ++k) text << "to train is to see it all again. ";
  text.close();
  const ProgramRun base = run_tessera("train " + name +
                                      ".json --data text.txt --steps 2 --batch 2 "
                                      "--threads 1 -q --export " +
                                      name + ".safetensors");
  INFO(base.messages);
  REQUIRE(base.exit_code == 0);
}

ProgramRun adapt(const std::string& name, const std::string& options) {
  return run_tessera("train " + name +
                     ".json --data text.txt --steps 6 --batch 1 --threads 1 -q "
                     "--learning-rate 0.01 --lora r=4,alpha=12,target=all-linear --load " +
                     name + ".safetensors " + options);
}

std::vector<double> adapted_losses(const std::string& name) {
  std::vector<double> losses;
  std::ifstream file(run_folder() + name);
  for (std::string line; std::getline(file, line);) losses.push_back(json::parse(line)["loss"]);
  return losses;
}

std::vector<std::byte> tensor_bytes(const std::string& file, const std::string& name) {
  auto opened = require_value(SafetensorsFile::open(run_folder() + file));
  const StoredTensor* const tensor = opened.find(name);
  INFO(name);
  REQUIRE(tensor != nullptr);
  std::vector<std::byte> bytes(static_cast<std::size_t>((tensor->end - tensor->begin).value));
  require_ok(opened.read(*tensor, Numel{0}, bytes));
  return bytes;
}

double loss_of(const std::string& name, const std::string& weights) {
  const ProgramRun run = run_tessera("evaluate " + name +
                                     ".json --data text.txt --threads 1 --json "
                                     "--weights " +
                                     weights);
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  return json::parse(run.output)["loss"];
}

}  // namespace

TEST_CASE("a checkpoint with adapters is refused where they cannot be used", "[cli][lora]") {
  prepare_base("gpt", architectures[0].second);
  REQUIRE(adapt("gpt", "--save adapted").exit_code == 0);
  for (const std::string command : {"generate gpt.json ", "evaluate gpt.json --data text.txt "}) {
    const ProgramRun run = run_tessera(command + "--checkpoint adapted");
    CHECK(run.exit_code == 2);
    CHECK(run.messages ==
          "tessera: adapted/step-000006: has adapters of --lora: write weights with them by "
          "tessera checkpoint merge, and name those with --weights\n");
  }
}

TEST_CASE("adapters train to the same bits on one rank and on four, and merge", "[cli][lora]") {
  for (const auto& [name, config] : architectures) {
    INFO(name);
    prepare_base(name, config);
    std::filesystem::remove_all(run_folder() + name + "-run");
    std::filesystem::remove_all(run_folder() + name + "-adapter");
    const ProgramRun one = adapt(
        name, "--accumulation 4 --json lora.json --export merged.safetensors --export-adapter " +
                  name + "-adapter --save " + name + "-run --save-every 3 --keep 0");
    INFO(one.messages);
    REQUIRE(one.exit_code == 0);
    const auto losses = adapted_losses("lora.json");
    REQUIRE(losses.size() == 6);
    CHECK(losses.back() < losses.front());
    for (const std::string scheme : {"fully_shard", "replicate", "zero3"}) {
      const ProgramRun four =
          adapt(name, "--runtime simulator --ranks 4 --json four.json --scheme " + scheme);
      INFO(scheme << four.messages);
      REQUIRE(four.exit_code == 0);
      CHECK(adapted_losses("four.json") == losses);
    }
    // The base is as it was; merged, it has learned.
    const std::string norm = name == "gpt" ? "h.0.ln_1.weight" : "model.norm.weight";
    CHECK(tensor_bytes("merged.safetensors", norm) == tensor_bytes(name + ".safetensors", norm));
    CHECK(loss_of(name, "merged.safetensors") < loss_of(name, name + ".safetensors") - 0.03);
    const std::string resumed = "train " + name +
                                ".json --data text.txt --steps 6 --batch 1 "
                                "--threads 1 -q --learning-rate 0.01 --accumulation 4 --resume " +
                                name + "-run/step-000003 ";
    REQUIRE(
        run_tessera(resumed + "--lora r=4,alpha=12,target=all-linear --json rest-" + name + ".json")
            .exit_code == 0);
    CHECK(adapted_losses("rest-" + name + ".json") ==
          std::vector<double>(losses.begin() + 3, losses.end()));
    CHECK(run_tessera(resumed + "--lora r=4,alpha=8")
              .messages.find(
                  "has --lora rank=4,alpha=12,target=all-linear, this one rank=4,alpha=8") !=
          std::string::npos);
    const std::string merge = "checkpoint merge " + name + "-run " + name + ".json ";
    const ProgramRun again = run_tessera(merge + "again.safetensors --adapter again");
    REQUIRE(again.exit_code == 0);
    CHECK(again.messages.empty());
    CHECK(run_tessera(merge + name + ".json").messages ==
          "tessera: FILE " + name + ".json is read as the model: choose another name\n");
    std::filesystem::remove(run_folder() + "unwritten.safetensors");
    CHECK(run_tessera(merge + "unwritten.safetensors --adapter text.txt").messages ==
          "tessera: --adapter text.txt: is a file: name a folder\n");
    CHECK_FALSE(std::filesystem::exists(run_folder() + "unwritten.safetensors"));
    const std::string other = config.substr(0, config.rfind('}')) + R"(, "bos_token_id": 7})";
    std::ofstream(run_folder() + "other.json") << other;
    CHECK(run_tessera("checkpoint merge " + name + "-run other.json other.safetensors")
              .messages.find("was trained by a description of ") != std::string::npos);
    const std::string weight =
        name == "gpt" ? "h.1.attn.c_proj.weight" : "model.layers.1.mlp.down_proj.weight";
    CHECK(tensor_bytes("again.safetensors", weight) == tensor_bytes("merged.safetensors", weight));
    CHECK(tensor_bytes(name + ".safetensors", weight) !=
          tensor_bytes("merged.safetensors", weight));
    const std::string half = std::string("base_model.model.") +
                             (name == "gpt" ? "transformer." : "") +
                             weight.substr(0, weight.size() - 6) + "lora_A.weight";
    CHECK(tensor_bytes("again/adapter_model.safetensors", half) ==
          tensor_bytes(name + "-adapter/adapter_model.safetensors", half));
    std::ifstream file(run_folder() + name + "-adapter/adapter_config.json");
    const json adapter = json::parse(file);
    CHECK(adapter["r"] == 4);
    CHECK(adapter["lora_alpha"] == 12.0);
    CHECK(adapter["fan_in_fan_out"] == (name == "gpt"));
  }
}

TEST_CASE("adapters train in halves, with checkpointed blocks, in simulations", "[cli][lora]") {
  prepare_base("llama", architectures[1].second);
  const ProgramRun half = adapt("llama", "--dtype bfloat16 --checkpointing full --json half.json");
  INFO(half.messages);
  REQUIRE(half.exit_code == 0);
  CHECK(adapted_losses("half.json").back() < adapted_losses("half.json").front());
  const auto parameters = [](const std::string& options) {
    const ProgramRun run = run_tessera("simulate llama.json -o lora.tessera " + options);
    INFO(run.messages);
    CHECK(run.exit_code == 0);
    return run.output.substr(0, run.output.find(" parameters"));
  };
  CHECK(parameters("") != parameters("--lora rank=4,target=q_proj,v_proj"));
  CHECK(run_tessera("simulate --again lora.tessera -o again.tessera").exit_code == 0);
}

TEST_CASE("adapters that make no sense are refused", "[cli][lora]") {
  prepare_base("gpt", architectures[0].second);
  const auto refusal = [](const std::string& options) {
    const ProgramRun run = run_tessera("train gpt.json --data text.txt --steps 1 " + options);
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  CHECK(refusal("--lora rank=1,alpha=1e39").find("alpha 1e+39 1e-30 to 1e30") != std::string::npos);
  CHECK(refusal("--lora rank=0,target=c_attn").find("rank 0 must be 1 to 65536") !=
        std::string::npos);
  CHECK(refusal("--lora dropout=1").find("'dropout=1' is none of rank=8, alpha=32, target=") !=
        std::string::npos);
  CHECK(refusal("--lora rank=2,rank=4").find("rank is given twice") != std::string::npos);
  CHECK(refusal("--lora r=2,rank=4").find("rank is given twice") != std::string::npos);
  CHECK(refusal("--lora target=c_attn,c_attn").find("c_attn is given twice") != std::string::npos);
  CHECK(refusal("--lora ''").find("--lora is given nothing") != std::string::npos);
  CHECK(refusal("--lora target=q_proj")
            .find("gpt has no module q_proj: its linear layers are c_attn, c_fc, c_proj") !=
        std::string::npos);
  CHECK(refusal("--lora target=ln_1").find("h.0.ln_1 is a LayerNorm") != std::string::npos);
  CHECK(refusal("--export-adapter x") ==
        "tessera: --export-adapter means nothing without --lora: leave it out\n");
  std::filesystem::remove_all(run_folder() + "plain-run");
  REQUIRE(run_tessera("train gpt.json --data text.txt --steps 1 -q --save plain-run").exit_code ==
          0);
  CHECK(run_tessera("checkpoint merge plain-run gpt.json x.safetensors")
            .messages.find("has no adapters") != std::string::npos);
}

}  // namespace tessera::test
