// SPDX-License-Identifier: Apache-2.0
// What `tessera generate` follows of a model's own files, and what it names.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <string>

#include "cli/train/token_choice.h"
#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {
namespace {

bool says(const ProgramRun& run, const std::string& sentence) {
  INFO(run.messages);
  const bool said = run.messages.find(sentence) != std::string::npos;
  CHECK(said);
  return said;
}

void train_once() {
  prepare();
  std::filesystem::create_directories(run_folder() + "own");
  write("own/config.json", config);
  if (!std::filesystem::exists(run_folder() + "own.safetensors")) {
    REQUIRE(train("-q --export own.safetensors").exit_code == 0);
  }
}

ProgramRun ask(const std::string& model, const std::string& flags) {
  return run_tessera("generate " + model + " --weights own.safetensors --threads 1 " +
                     "--prompt-ids 116,111,32 " + flags);
}

ProgramRun ask_own(const std::string& generation_config, const std::string& flags = "") {
  write("own/generation_config.json", generation_config);
  return ask("own/config.json", flags);
}

TEST_CASE("generate follows generation_config.json, and flags come first", "[cli][generate]") {
  train_once();
  CHECK(ask_own(R"({"max_new_tokens": 5})").output ==
        ask("gpt.json", "--tokens 5 --temperature 0").output);
  CHECK(ask_own(R"({"max_length": 9})").output ==
        ask("gpt.json", "--tokens 6 --temperature 0").output);
  const std::string all = R"({"do_sample": true, "temperature": 1.5, "top_k": 40, "top_p": 0.9,
      "repetition_penalty": 1.2, "max_new_tokens": 40, "max_length": 4})";
  const std::string flags =
      "--temperature 1.5 --top-k 40 --top-p 0.9 --repetition-penalty 1.2 --tokens 40";
  CHECK(ask_own(all).output == ask("gpt.json", flags).output);
  CHECK(ask_own(all, "--top-p 0.1 --tokens 30").output ==
        ask("gpt.json",
            "--temperature 1.5 --top-k 40 --top-p 0.1 --repetition-penalty 1.2 --tokens 30")
            .output);
  // What is unsaid is transformers' own.
  CHECK(ask_own(R"({"do_sample": true, "max_new_tokens": 40})", "--temperature 3").output ==
        ask("gpt.json", "--temperature 3 --top-k 50 --tokens 40").output);
  CHECK(ask_own(all).messages.empty());
}

TEST_CASE("what generation_config.json says and generate does not do is named or refused",
          "[cli][generate]") {
  train_once();
  CHECK(says(ask_own(R"({"num_beams": 4, "min_p": 0.1, "stop_strings": ["x"], "mine": 1,
                         "num_return_sequences": 1, "length_penalty": 1.0, "use_cache": false,
                         "top_k": 50, "typical_p": 1, "suppress_tokens": []})",
                     "--tokens 1"),
             "generation_config.json: has keys that generate does not follow: min_p, mine, "
             "num_beams, stop_strings\n"));
  CHECK(says(ask_own(R"({"temperature": 0.5, "top_p": 0.8, "top_k": 50})", "--tokens 1"),
             "temperature, top_p say nothing without do_sample true: the most likely token"));
  CHECK(says(ask_own("{}", "--top-k 3 --tokens 1"),
             "--top-k means nothing where own/generation_config.json has no do_sample true"));
  CHECK(says(ask_own(R"({"temprature": 1})"), "unknown key \"temprature\", did you mean"));
  CHECK(says(ask_own(R"({"top_p": 1.5})"), "top_p must be a number from 0 to 1, found 1.5"));
  CHECK(says(ask_own(R"({"do_sample": "yes"})"), "do_sample must be true or false"));
  CHECK(says(ask_own(R"({"max_length": 3})"),
             "max_length 3 has no room behind the 3 tokens of the prompt: say with --tokens"));
  CHECK(says(ask_own("[]"), "generation_config.json: is no JSON object"));
}

TEST_CASE("without generation_config.json config.json says how tokens are chosen",
          "[cli][generate]") {
  train_once();
  const auto own = [&](const std::string& keys, const std::string& flags) {
    std::string text(config);
    write("said.json", text.insert(1, keys + ", "));
    return ask("said.json", flags);
  };
  CHECK(own(R"("do_sample": true, "temperature": 2.0, "top_k": 9)", "--tokens 30").output ==
        ask("gpt.json", "--temperature 2 --top-k 9 --tokens 30").output);
  CHECK(own(R"("temperature": 1.0)", "--tokens 9").output ==
        ask("gpt.json", "--temperature 0 --tokens 9").output);
  CHECK(says(own(R"("num_beams": 3)", "--tokens 1"), "does not follow: num_beams\n"));
  CHECK(own(R"("num_beams": 1)", "--tokens 9").output == ask("gpt.json", "--tokens 9").output);
}

TEST_CASE("a text ends at each eos_token_id, and none that the model has not", "[cli][generate]") {
  train_once();
  const std::string likely = ask("gpt.json", "--tokens 3 --temperature 0").output;
  const std::string first = likely.substr(11, likely.find(' ', 11) - 11);
  INFO(likely);
  CHECK(ask_own(R"({"eos_token_id": [3, )" + first + "]}", "--tokens 3").output == "116 111 32 \n");
  CHECK(ask_own(R"({"eos_token_id": )" + first + "}", "--tokens 3 --end-of-text none").output ==
        likely);
  CHECK(ask("gpt.json", "--tokens 3 --temperature 0 --end-of-text " + first).output ==
        "116 111 32 \n");
  CHECK(says(ask_own(R"({"eos_token_id": [256, -1]})", "--tokens 1"),
             "eos_token_id 256 is none of the model's 256 tokens and ends nothing\n"));
  CHECK(says(ask_own(R"({"eos_token_id": "</s>"})"), "must be the number of a token"));
  CHECK(says(ask("gpt.json", "--end-of-text 256"), "is no number of a token below 256"));
}

TEST_CASE("tokens that a model has not are refused, and more than it has are named",
          "[cli][generate]") {
  train_once();
  CHECK(says(ask("gpt.json", "--tokens 1 --top-k 300"),
             "--top-k 300: gpt has 256 tokens, which may all be chosen\n"));
  CHECK(says(run_tessera("generate gpt.json --weights own.safetensors --prompt-ids 256"),
             "--prompt-ids: token 256 is none of the 256 of gpt"));
  CHECK(says(run_tessera("generate gpt.json --weights own.safetensors --prompt ''"),
             "--prompt is given nothing"));
  CHECK(says(run_tessera("generate gpt.json --weights own.safetensors --prompt-ids ''"),
             "--prompt-ids is given nothing"));
  write("stripping.json", R"({"normalizer": {"type": "Strip", "strip_left": true,
      "strip_right": true}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  const ProgramRun empty = run_tessera(
      "generate gpt.json --weights own.safetensors --tokenizer stripping.json --prompt '  '");
  CHECK(empty.exit_code == 2);
  CHECK(says(empty, "--prompt: the text has no tokens: give another"));
}

TEST_CASE("tokens that a tokenizer does not have have no text, and are counted",
          "[cli][generate]") {
  train_once();
  const auto piece = [](int id) { return "[" + std::to_string(id) + "]"; };
  const auto ask_without = [&](int left_out, const std::string& file) {
    std::string vocabulary;
    for (int id = 0; id < 256; ++id) {
      if (id == left_out) continue;
      vocabulary += vocabulary.empty() ? "" : ", ";
      vocabulary += '"' + piece(id) + "\": " + std::to_string(id);
    }
    write(file, R"({"decoder": {"type": "Fuse"}, "model": {"type": "BPE", "merges": [],
        "vocab": {)" +
                    vocabulary + "}}}");
    return ask("gpt.json", "--tokens 40 --top-k 5 --tokenizer " + file);
  };
  write("outside.json", R"({"model": {"type": "BPE", "merges": [], "vocab": {"a": 300}}})");
  const ProgramRun all = ask_without(-1, "all.json");
  const std::string prompted = piece(116);  // "t", which is there at least once
  std::string expected = all.output;
  int count = 0;
  for (std::size_t at = 0; (at = expected.find(prompted)) != std::string::npos; ++count) {
    expected.erase(at, prompted.size());
  }
  const ProgramRun some = ask_without(116, "some.json");
  REQUIRE(count >= 1);
  CHECK(all.messages.empty());
  CHECK(some.exit_code == 0);
  CHECK(some.output == expected);
  const ProgramRun outside = run_tessera(
      "generate gpt.json --weights own.safetensors --tokenizer outside.json --prompt a");
  CHECK(outside.exit_code == 2);
  CHECK(outside.output.empty());
  CHECK(says(outside, "--prompt: token 300 is none of the 256 of gpt"));
  CHECK(says(some, std::to_string(count) + " of the 43 tokens have no text: their numbers are none "
                                           "of some.json"));
}

TEST_CASE("weights of another framework's layout are refused", "[cli][generate]") {
  train_once();
  std::string bytes = text_of("own.safetensors");
  const std::size_t at = bytes.find("\"format\":\"pt\"");
  REQUIRE(at != std::string::npos);
  bytes.replace(at + 10, 2, "tf");
  write("tf.safetensors", bytes);
  const ProgramRun run = run_tessera("generate gpt.json --weights tf.safetensors --prompt a");
  CHECK(run.exit_code == 2);
  CHECK(says(run,
             "tf.safetensors: __metadata__ says format \"tf\", but matrices are read as "
             "PyTorch has them (pt)"));
}

TEST_CASE("of tokens the fewest that are likely enough are chosen among", "[cli][generate]") {
  const std::vector<float> logits = {std::log(0.1F), std::log(0.5F), std::log(0.4F)};
  std::vector<int> count(3);
  const auto draw = [&](double top_p) {
    count.assign(3, 0);
    for (std::uint64_t k = 0; k < 1000; ++k) {
      ++count[static_cast<std::size_t>(cli::choose_token(logits, {.top_p = top_p}, k))];
    }
    return count;
  };
  CHECK(draw(0)[1] == 1000);
  CHECK(draw(0.49)[1] == 1000);
  CHECK(draw(0.6)[0] == 0);
  CHECK(count[2] > 380);
  CHECK(draw(0.95)[0] > 60);
}

TEST_CASE("tokens that were there are penalised once each", "[cli][generate]") {
  std::vector<float> logits = {2, -2, 3, 0};
  cli::penalise(logits, std::vector<std::int32_t>{0, 1, 1, 0}, 2);
  CHECK(logits == std::vector<float>{1, -4, 3, 0});
}

}  // namespace
}  // namespace tessera::test
