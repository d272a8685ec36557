// SPDX-License-Identifier: Apache-2.0
// What `tessera train` was silent about once: it acts, is refused or is named in a warning.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {
namespace {

bool says(const ProgramRun& run, const std::string& text) {
  UNSCOPED_INFO(run.messages);
  return run.messages.find(text) != std::string::npos;
}

// The configuration of the tiny model with more keys.
std::string config_with(const std::string& keys) {
  std::string text = config;
  return text.insert(text.rfind('}'), ", " + keys);
}

}  // namespace

TEST_CASE("trained parameters that are in no unit are named where ranks drift apart",
          "[cli][train]") {
  prepare();
  const auto trained = [](const std::string& options) {
    return run_tessera("train gpt.json --data text.txt --steps 1 --threads 1 -q " + options);
  };
  const std::string alone = "each rank trains its own, nobody reduces ";
  const std::string two = "--runtime simulator --ranks 2 ", one = "--ignore-parameters wte.weight";
  CHECK(says(trained(two + one),
             "wte.weight is in no unit: " + alone + "its gradient, and ranks drift apart"));
  CHECK(says(trained(two + one + " --scheme full_shard"), alone));
  CHECK(says(trained(two + "--units h.0,ln_f --plain-root"),
             "wte.weight, wpe.weight are in no unit: " + alone + "their gradients"));
  CHECK_FALSE(says(trained(one), alone));
  CHECK(says(run_tessera("simulate gpt.json --steps 1 " + one), alone));
}

TEST_CASE("a run whose last loss is no number ends with exit code 2 and exports nothing",
          "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "lost");
  std::filesystem::remove(run_folder() + "lost.safetensors");
  REQUIRE(train("-q --export base.safetensors").exit_code == 0);
  // The first step's adapters multiply all that follows by 1e21.
  const ProgramRun lost = run_tessera(
      "train gpt.json --data text.txt --batch 2 --steps 2 --threads 1 -q --load base.safetensors "
      "--lora rank=2,alpha=1e18,target=all-linear --learning-rate 1000 --schedule constant "
      "--json lost.json --save lost --export lost.safetensors");
  CHECK(lost.exit_code == 2);
  CHECK(says(lost,
             "the loss of the last step is nan: its weights are worth nothing and are not "
             "exported; lower the learning rate"));
  CHECK(says(lost, "there is no checkpoint in lost\n"));
  CHECK_FALSE(std::filesystem::exists(run_folder() + "lost.safetensors"));
  const auto lines = lines_of("lost.json");
  REQUIRE(lines.size() == 2);
  CHECK(lines[0]["loss"].is_number());
  CHECK(lines[1]["loss"].is_null());
}

TEST_CASE("without dropout, by --no-dropout or --dropout 0, is a model that has none",
          "[cli][train]") {
  prepare();
  std::string drops = config;
  for (const std::string key : {"attn", "resid", "embd"}) {
    drops.replace(drops.find(key + "_pdrop\": 0") + key.size() + 9, 1, "0.5");
  }
  write("drops.json", drops);
  const auto losses = [](const std::string& model, const std::string& options) {
    const ProgramRun run = run_tessera("train " + model +
                                       " --data text.txt --batch 2 --steps 2 "
                                       "--threads 1 -q --json drops.log " +
                                       options);
    REQUIRE(run.exit_code == 0);
    return losses_of("drops.log");
  };
  write("none.json", config);
  const auto plain = losses("none.json", "");
  CHECK(losses("drops.json", "") != plain);
  CHECK(losses("drops.json", "--no-dropout") == plain);
  CHECK(losses("drops.json", "--dropout 0") == plain);
  CHECK(losses("none.json", "--dropout 0.5") == losses("drops.json", ""));
  CHECK(says(train("--no-dropout --dropout 0.5"), "excludes --"));
}

TEST_CASE("numbers that would not act as they are written are refused", "[cli][train]") {
  prepare();
  for (const std::string seed : {"18446744073709551616", "-1", "1.5", "1e3"}) {
    CHECK(refusal("--data text.txt --seed " + seed).find("--seed: '" + seed + "' is ") !=
          std::string::npos);
  }
  CHECK(train("-q --seed 18446744073709551615").exit_code == 0);
  CHECK(refusal("--data text.txt --epsilon 0").find("'0' is out of range, choose 1e-30 to 1") !=
        std::string::npos);
  write("eps.json", R"({"optimizer": {"type": "AdamW", "params": {"lr": 0.001, "eps": 0}}})");
  CHECK(refusal("--data text.txt --deepspeed eps.json").find("optimizer.params.eps is 0") !=
        std::string::npos);
}

TEST_CASE("an option that a shell gave nothing is refused", "[cli][train]") {
  prepare();
  for (const std::string option : {"--save", "--export", "--load", "--tokenizer", "--json"}) {
    CHECK(refusal("--data text.txt " + option + " ''").find(option + " is given nothing") !=
          std::string::npos);
  }
  CHECK(says(run_tessera("evaluate gpt.json --data text.txt --weights ''"),
             "--weights is given nothing"));
}

TEST_CASE("validation on what is trained on is warned of, by whatever name", "[cli][train]") {
  prepare();
  write("apart.txt", text_of("text.txt"));
  const std::string warning = "is trained on, too: choose a file that is not";
  CHECK(says(train("-q --validation text.txt"), "--validation text.txt: " + warning));
  CHECK(says(train("-q --validation ./text.txt"), warning));
  CHECK(train("-q --validation apart.txt").messages.empty());
}

TEST_CASE("a run that goes on otherwise than it began says so in one warning", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "begun");
  REQUIRE(train("-q --save begun --save-every 3 --keep 0").exit_code == 0);
  const auto warned = [](const std::string& options, const std::string& model = "gpt.json") {
    const ProgramRun run = run_tessera(
        "train " + model + " --data text.txt --threads 1 -q --resume begun/step-000003 " + options);
    CHECK(run.exit_code == 0);
    return run.messages;
  };
  CHECK(warned("--batch 2 --steps 6").empty());
  CHECK(warned("--batch 1 --accumulation 2 --steps 6 --learning-rate 1e-3 --scheme zero3 "
               "--betas 0.9,0.95")
            .empty());
  CHECK(warned("--batch 2 --steps 8 --learning-rate 0.1") ==
        "tessera: warning: begun/step-000003: goes on otherwise than it began: --learning-rate was "
        "0.001, is 0.1; --steps was 6, is 8\n");
  CHECK(warned("--batch 2 --steps 6 --schedule constant") ==
        "tessera: warning: begun/step-000003: goes on otherwise than it began: --schedule was "
        "cosine, is constant\n");
  CHECK(warned("--batch 4 --steps 6").find("began: tokens a step was 32, is 64") !=
        std::string::npos);
  CHECK(warned("--batch 2 --steps 6 --sharded-dtype bfloat16")
            .find("began: --sharded-dtype was float32, is bfloat16") != std::string::npos);
  write("relu.json", config_with(R"("n_inner": null)"));
  CHECK(warned("--batch 2 --steps 6", "relu.json").find("began: the model was ") !=
        std::string::npos);
}

TEST_CASE("what a run that is resumed anyway does otherwise is a warning each", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "anyway");
  REQUIRE(train("-q --save anyway --lora rank=2,alpha=4").exit_code == 0);
  write("longer.txt", text_of("text.txt") + "to train");
  const std::string on =
      "train gpt.json --batch 4 --steps 8 --schedule constant --threads 1 -q --resume anyway "
      "--lora rank=2,alpha=8 --seed 9 --sequence-length 8 --data longer.txt";
  const ProgramRun run = run_tessera(on + " --resume-anyway");
  CHECK(run.exit_code == 0);
  for (const char* other :
       {"the run to resume has --lora rank=2,alpha=4", "the run to resume has seed 0, this one 9\n",
        "the run to resume has sequence length 16, this one 8\n",
        "the run to resume has tokens to train on: 1320, this one 1328\n"}) {
    CHECK(says(run, std::string("tessera: warning: ") + other));
  }
  CHECK(says(run_tessera(on), "--lora rank=2,alpha=4"));
}

TEST_CASE("a checkpoint that is used by another description of its model is warned of",
          "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "described");
  REQUIRE(train("-q --save described").exit_code == 0);
  write("relu.json", config_with(R"("n_inner": null)"));
  const std::string warning = "described/step-000006: was trained by a description of 7664 ";
  for (const std::string command :
       {"generate relu.json --tokens 2 ", "evaluate relu.json --threads 1 --data text.txt "}) {
    CHECK(says(run_tessera(command + "--checkpoint described"), warning));
  }
  CHECK(run_tessera("generate gpt.json --tokens 2 --checkpoint described").messages.empty());
}

TEST_CASE("what generate does not do with its options and its prompt is said", "[cli][train]") {
  prepare();
  REQUIRE(train("-q --export said.safetensors").exit_code == 0);
  const std::string on = "generate gpt.json --weights said.safetensors --tokens 2 --threads 1 ";
  CHECK(says(run_tessera(on + "--top-k 1 --seed 3"), "--seed means nothing with --top-k 1"));
  CHECK(says(run_tessera(on + "--top-k 1 --temperature 2"), "--temperature means nothing with"));
  CHECK(says(run_tessera(on + "--prompt 'seventeen letters'"),
             "the prompt has 17 tokens, but gpt places for 16: the first 1 are not seen"));
  CHECK(run_tessera(on + "--prompt sixteen").messages.empty());
}

TEST_CASE("an adapter is not written onto the weights that have it", "[cli][train]") {
  prepare();
  for (const std::string out : {"both", "both/"}) {
    CHECK(says(train("-q --lora rank=2 --export " + out + " --export-adapter both"),
               "--export and --export-adapter both name both"));
  }
}

TEST_CASE("steps that learned nothing are counted at the end", "[cli][train]") {
  prepare();
  const std::string wild = "--schedule constant --learning-rate 1000 --weight-decay 10 ";
  CHECK(says(train("-q " + wild),
             "4 steps were skipped, as the gradients were no finite numbers: lower the"));
  CHECK(train("-q").messages.empty());
  CHECK(says(train("-q --dtype float16 --loss-scale 1e30"),
             "all of the 6 steps were skipped, as gradients overflowed in float16: nothing was "
             "learned; lower --loss-scale"));
  CHECK(train("-q --dtype float16").messages.empty());
}

TEST_CASE("lines of JSON that are not read as a whole are warned of", "[cli][train]") {
  prepare();
  std::string lines;
  for (int k = 0; k < 40; ++k)
    lines += R"({"text": "see it again", "source": "web"})"
             "\n";
  write("web.jsonl", lines);
  const std::string warning =
      "tessera: warning: web.jsonl: has keys that are not read: source (40 lines)\n";
  const ProgramRun run = run_tessera(
      "train gpt.json --data web.jsonl --batch 1 --steps 1 --threads 1 -q --export "
      "web.safetensors");
  CHECK(run.messages == warning);
  CHECK(run_tessera("evaluate gpt.json --data web.jsonl --weights web.safetensors").messages ==
        warning);
}

TEST_CASE("an exported folder has the dtype that its config.json says", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "half");
  write("half.json", config_with(R"("torch_dtype": "bfloat16")"));
  const std::string run = "train half.json --data text.txt --batch 2 --steps 1 --threads 1 -q ";
  const auto exported = [&](const std::string& to, const std::string& file) {
    REQUIRE(run_tessera(run + "--export " + to).exit_code == 0);
    const std::string header = text_of(file);
    for (const char* dtype : {"BF16", "F16", "F32"}) {
      if (header.find(std::string("\"dtype\":\"") + dtype + "\"") != std::string::npos)
        return std::string(dtype);
    }
    return std::string("none");
  };
  CHECK(exported("half/", "half/model.safetensors") == "BF16");
  CHECK(exported("half/ --export-dtype float32", "half/model.safetensors") == "F32");
  CHECK(exported("half.safetensors", "half.safetensors") == "F32");
  CHECK(exported("half.safetensors --export-dtype float16", "half.safetensors") == "F16");
}

}  // namespace tessera::test
