// SPDX-License-Identifier: Apache-2.0
// `tessera train` on lines of JSON and `tessera evaluate`, from end to end.
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

using nlohmann::json;

void write_file(const std::string& name, const std::string& text) {
  std::ofstream(run_folder() + name, std::ios::binary) << text;
}

// A byte-level tokenizer of ten characters and the tokens of chatml.
constexpr const char* letters = R"({"model": {"type": "BPE", "vocab": {"s": 0, "u": 1, "a": 2,
    "i": 3, "e": 4, "r": 5, "t": 6, "n": 7, "1": 8, "Ċ": 9, "<|im_start|>": 10,
    "<|im_end|>": 11}, "merges": []}, "pre_tokenizer": {"type": "ByteLevel",
    "add_prefix_space": false, "use_regex": false}, "added_tokens": [
    {"id": 10, "content": "<|im_start|>", "special": true, "single_word": false, "lstrip": false,
     "rstrip": false, "normalized": false},
    {"id": 11, "content": "<|im_end|>", "special": true, "single_word": false, "lstrip": false,
     "rstrip": false, "normalized": false}]})";

void prepare_documents() {
  write_file("gpt.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 32, "vocab_size": 256})");
  write_file("letters.json", letters);
  std::string chats, pairs, text;
  for (int k = 0; k < 40; ++k) {
    const std::string sum = std::string(static_cast<std::size_t>(k % 4 + 1), '1');
    chats += json{{"messages",
                   {{{"role", "user"}, {"content", sum + "1"}},
                    {{"role", "assistant"}, {"content", "as" + sum}}}}}
                 .dump() +
             "\n";
    pairs += json{{"prompt", "1+" + sum + "="}, {"completion", sum + "1"}}.dump() + "\n";
    text += "to train is to see it all again. ";
  }
  write_file("chats.jsonl", chats);
  write_file("pairs.jsonl", pairs);
  write_file("text.txt", text);
}

std::vector<double> logged(const std::string& name) {
  std::vector<double> losses;
  std::ifstream file(run_folder() + name);
  for (std::string line; std::getline(file, line);) losses.push_back(json::parse(line)["loss"]);
  return losses;
}

ProgramRun chats(const std::string& options) {
  return run_tessera(
      "train gpt.json --data chats.jsonl --tokenizer letters.json --chat-template chatml "
      "--batch 1 --steps 6 --threads 1 -q " +
      options);
}

json evaluation(const std::string& options) {
  const ProgramRun run = run_tessera("evaluate gpt.json --json " + options);
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  return json::parse(run.output);
}

std::string refused_evaluation(const std::string& options) {
  const ProgramRun run = run_tessera("evaluate gpt.json " + options);
  CHECK(run.exit_code == 2);
  CHECK(run.output.empty());
  return run.messages;
}

}  // namespace

TEST_CASE("chats train alike on one rank and on four, and go on after a stop", "[cli][evaluate]") {
  prepare_documents();
  std::filesystem::remove_all(run_folder() + "chats");
  const ProgramRun one =
      chats("--accumulation 4 --json one.json --save chats --save-every 3 --keep 0");
  INFO(one.messages);
  REQUIRE(one.exit_code == 0);
  const auto losses = logged("one.json");
  CHECK(losses.back() < losses.front());
  for (const std::string scheme : {"fully_shard", "zero3"}) {
    const ProgramRun four =
        chats("--runtime simulator --ranks 4 --json four.json --scheme " + scheme);
    INFO(four.messages);
    REQUIRE(four.exit_code == 0);
    CHECK(logged("four.json") == losses);
  }
  REQUIRE(chats("--accumulation 4 --json rest.json --resume chats/step-000003").exit_code == 0);
  CHECK(logged("rest.json") == std::vector<double>(losses.begin() + 3, losses.end()));
  const ProgramRun other = run_tessera(
      "train gpt.json --data chats.jsonl --chat-template plain --batch 1 --steps 6 --accumulation "
      "4 --resume chats");
  CHECK(other.exit_code == 2);
  CHECK(other.messages.find("tokens to train on") != std::string::npos);
}

TEST_CASE("training says what became of the documents", "[cli][evaluate]") {
  prepare_documents();
  write_file("mixed.jsonl", json{{"text", std::string(100, 'x')}}.dump() + "\n" +
                                json{{"prompt", "why?"}, {"completion", ""}}.dump() + "\n" +
                                json{{"prompt", "1+1="}, {"completion", "2"}}.dump() + "\n");
  const ProgramRun run =
      run_tessera("train gpt.json --data mixed.jsonl --batch 1 --steps 1 --threads 1");
  INFO(run.messages);
  CHECK(run.exit_code == 0);
  CHECK(run.output.find("mixed.jsonl: 109 tokens of 3 documents, 4 samples") != std::string::npos);
  CHECK(run.output.find("documents are packed: samples are ") != std::string::npos);
  CHECK(run.messages.find("1 of 3 documents have more than 32 tokens and are cut") !=
        std::string::npos);
  CHECK(run.messages.find("1 of 3 documents have nothing to learn and are left out") !=
        std::string::npos);
}

TEST_CASE("evaluate finds the same bits on any number of ranks", "[cli][evaluate]") {
  prepare_documents();
  std::filesystem::remove_all(run_folder() + "evaluated");
  REQUIRE(run_tessera("train gpt.json --data text.txt --steps 3 --batch 2 -q --threads 1 "
                      "--save evaluated --export evaluated.safetensors")
              .exit_code == 0);
  const std::string files = "--data text.txt,pairs.jsonl --threads 1 ";
  const json one = evaluation(files + "--weights evaluated.safetensors");
  CHECK(evaluation(files + "--checkpoint evaluated --runtime simulator --ranks 3") == one);
  CHECK(evaluation(files + "--checkpoint evaluated --runtime simulator --ranks 4 --scheme "
                           "zero3") == one);
  CHECK(one["files"][0]["file"] == "text.txt");
  CHECK(one["files"][0]["tokens"] == 1319);  // all but the first
  CHECK(one["files"][1]["tokens"] == 140);   // completions
  CHECK(one["tokens"] == 1459);
  const double loss = one["files"][0]["loss"];
  CHECK(one["files"][0]["perplexity"].get<double>() == Approx(std::exp(loss)));
  CHECK((loss > 1 && loss < 6));
  const ProgramRun shown =
      run_tessera("evaluate gpt.json " + files + "--weights evaluated.safetensors");
  CHECK(shown.output.find("perplexity") != std::string::npos);
  CHECK(shown.output.find("1,319") != std::string::npos);
}

TEST_CASE("evaluate and JSON lines refuse what makes no sense", "[cli][evaluate]") {
  prepare_documents();
  REQUIRE(run_tessera("train gpt.json --data text.txt --steps 1 --batch 1 -q --threads 1 "
                      "--export refused.safetensors")
              .exit_code == 0);
  CHECK(refused_evaluation("--data text.txt") ==
        "tessera: give --weights or --checkpoint, one of them\n");
  CHECK(refused_evaluation("--data text.txt --weights refused.safetensors --sequence-length 33") ==
        "tessera: --sequence-length 33: gpt takes at most 32 tokens\n");
  CHECK(refused_evaluation("--data text.txt --weights refused.safetensors --ranks 2") ==
        "tessera: --ranks means nothing without --runtime simulator: leave it out\n");
  CHECK(refused_evaluation("--data text.txt --weights none.safetensors").find("none.safetensors") !=
        std::string::npos);
  const auto refusal = [](const std::string& options) {
    const ProgramRun run = run_tessera("train gpt.json --steps 1 " + options);
    CHECK(run.exit_code == 2);
    return run.messages;
  };
  CHECK(refusal("--data chats.jsonl").find("line 1: a chat needs a template") != std::string::npos);
  CHECK(refusal("--data chats.jsonl --chat-template llama3 --tokenizer letters.json")
            .find("needs the token <|begin_of_text|>, which the tokenizer has not") !=
        std::string::npos);
  CHECK(refusal("--data chats.jsonl --chat-template mistral").find("mistral") != std::string::npos);
  CHECK(refusal("--data text.txt --chat-template plain") ==
        "tessera: --chat-template means nothing without JSON lines as data: leave it out\n");
  CHECK(refusal("--data text.txt,pairs.jsonl").find("train on one kind of data") !=
        std::string::npos);
  CHECK(refusal("--data pairs.jsonl:2").find("documents have no weight") != std::string::npos);
  CHECK(refusal("--data pairs.jsonl --end-of-text no").find("is no number of a token below 256") !=
        std::string::npos);
  CHECK(refusal("--data pairs.jsonl --tokenizer letters.json --end-of-text no")
            .find("letters.json has no such token") != std::string::npos);
}

}  // namespace tessera::test
