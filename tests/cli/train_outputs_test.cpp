// SPDX-License-Identifier: Apache-2.0
// What `tessera train` writes: nothing is lost, nothing is written over.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {

TEST_CASE("a disk that is full loses files, not the run, and says so at once", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "full");
  std::filesystem::create_directories(run_folder() + "full");
  write("full.sh",
        "cd '" + run_folder() + "' || exit 1\nulimit -f 8\ntrap '' XFSZ\n" + TESSERA_PROGRAM +
            " train gpt.json --data text.txt --batch 2 --threads 1 -q --steps 4 --save "
            "full --save-every 2 --json full.json --export full.safetensors 2> full.err\n");
  const int status = std::system(("sh '" + run_folder() + "full.sh'").c_str());
  const std::string said = text_of("full.err");
  INFO(said);
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(said.find("; training goes on after step ") != std::string::npos);
  CHECK(said.find("there is no checkpoint in full") != std::string::npos);
  CHECK(lines_of("full.json").size() == 4);
}

TEST_CASE("an export for which there is no room leaves an older one as it was", "[cli][train]") {
  prepare();
  std::filesystem::create_directories(run_folder() + "older");
  write("older/config.json", "{\"model_type\": \"older\"}");
  write("older/model.safetensors", "");
  write("older.sh", "cd '" + run_folder() + "' || exit 1\nulimit -f 8\ntrap '' XFSZ\n" +
                        TESSERA_PROGRAM +
                        " train gpt.json --data text.txt --batch 2 --threads 1 -q --steps 1 "
                        "--export older 2> older.err\n");
  const int status = std::system(("sh '" + run_folder() + "older.sh'").c_str());
  INFO(text_of("older.err"));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(text_of("older/config.json") == "{\"model_type\": \"older\"}");
  CHECK(text_of("older/model.safetensors").empty());
  CHECK_FALSE(std::filesystem::exists(run_folder() + "older/config.json.before"));
  REQUIRE(train("-q --export older").exit_code == 0);
  CHECK(text_of("older/config.json") == config);
  CHECK_FALSE(std::filesystem::exists(run_folder() + "older/config.json.before"));
}

TEST_CASE("what was trained can be exported, loaded and asked for text", "[cli][train]") {
  prepare();
  std::filesystem::remove_all(run_folder() + "saved");
  REQUIRE(train("-q --save saved --export trained.safetensors").exit_code == 0);
  const std::string ask = " --tokens 12 --seed 3 --prompt 'to see '";
  const ProgramRun from_file = run_tessera("generate gpt.json --weights trained.safetensors" + ask);
  INFO(from_file.messages);
  REQUIRE(from_file.exit_code == 0);
  CHECK(from_file.output.find("to see ") == 0);
  CHECK(from_file.output.size() == 7 + 12 + 1);
  const ProgramRun from_checkpoint = run_tessera("generate gpt.json --checkpoint saved" + ask);
  CHECK(from_checkpoint.output == from_file.output);
  const ProgramRun likely = run_tessera(
      "generate gpt.json --weights trained.safetensors --temperature 0 --tokens 3 --prompt-ids "
      "116,111");
  CHECK(likely.output.find("116 111 ") == 0);
  CHECK(train("-q --load trained.safetensors").exit_code == 0);
  CHECK(run_tessera("generate gpt.json").messages ==
        "tessera: give --weights or --checkpoint, one of them\n");
}

TEST_CASE("a run does not write over what it reads, nor two things into one file", "[cli][train]") {
  prepare();
  const auto size = std::filesystem::file_size(run_folder() + "text.txt");
  CHECK(refusal("--data text.txt --export ./text.txt") ==
        "tessera: --export ./text.txt is read as --data: choose another name\n");
  CHECK(refusal("--data text.txt:2 --json text.txt").find("is read as --data") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --csv gpt.json").find("is read as the model") !=
        std::string::npos);
  CHECK(refusal("--data text.txt --json log --csv ./log") ==
        "tessera: --json and --csv name the same file log: choose two\n");
  CHECK(refusal("--data text.txt --trace here --save ./here/") ==
        "tessera: --trace and --save both name here, which is a file for one and a folder for the "
        "other: choose two\n");
  CHECK(
      refusal("--data text.txt --export here --tensorboard here").find("a folder for the other") !=
      std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run_folder() + "here"));
  CHECK(refusal("--data text.txt --tensorboard gpt.json")
            .find("--tensorboard gpt.json: the folder cannot be made") != std::string::npos);
  CHECK(std::filesystem::file_size(run_folder() + "text.txt") == size);
}

TEST_CASE("logs and weights take the place of logs and weights alone", "[cli][train]") {
  prepare();
  const std::string mine = R"({"results": "of a month"})";
  for (const std::string option : {"--json", "--csv", "--export"}) {
    write("mine.json", mine);
    const ProgramRun run = train("-q " + option + " mine.json");
    CHECK(run.exit_code == 2);
    CHECK(run.messages.find(option == "--export"
                                ? "mine.json: is a file of another kind"
                                : option + " mine.json: exists and is no log of a "
                                           "run: choose another name") != std::string::npos);
    CHECK(text_of("mine.json") == mine);
    write("mine.json", "");
    CHECK(train("-q " + option + " mine.json").exit_code == 0);
    CHECK(train("-q " + option + " mine.json").exit_code == 0);
  }
  REQUIRE(train("-q --save weighed").exit_code == 0);
  write("mine.json", mine);
  const ProgramRun late = run_tessera("checkpoint export weighed mine.json");
  CHECK(late.exit_code == 2);
  CHECK(text_of("mine.json") == mine);
}

TEST_CASE("an export into a folder has what from_pretrained reads", "[cli][train]") {
  prepare();
  const std::string out = run_folder() + "tuned/";
  std::filesystem::remove_all(out);
  std::filesystem::create_directories(run_folder() + "own");
  write("own/config.json", config);
  write("own/generation_config.json", "{}");
  const std::string options = " --data text.txt --batch 2 --steps 1 --threads 1 -q ";
  CHECK(run_tessera("train own/config.json" + options + "--export own/")
            .messages.find("is the folder of the model that is trained") != std::string::npos);
  REQUIRE(run_tessera("train own/config.json" + options + "--export tuned/").exit_code == 0);
  for (const char* name : {"model.safetensors", "config.json", "generation_config.json"}) {
    INFO(name);
    CHECK(std::filesystem::exists(out + name));
  }
  CHECK_FALSE(std::filesystem::exists(out + "tokenizer.json"));
  CHECK(run_tessera("evaluate tuned/config.json --weights tuned/model.safetensors --data text.txt")
            .exit_code == 0);
  write("tuned/merges.txt", "t o");
  CHECK(run_tessera("train own/config.json" + options + "--export tuned/").messages ==
        "tessera: warning: --export tuned/: merges.txt is there and stays, as the model has none: "
        "from_pretrained reads what lies beside weights\n");
  write("tuned/adapter_config.json", "{}");
  const ProgramRun adapted = run_tessera("train own/config.json" + options + "--export tuned");
  CHECK(adapted.exit_code == 2);
  CHECK(adapted.messages.find("--export tuned: has adapter_config.json, by which from_pretrained "
                              "puts an adapter onto the weights: name another folder, or remove "
                              "it") != std::string::npos);
}

}  // namespace tessera::test
