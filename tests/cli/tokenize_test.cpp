// SPDX-License-Identifier: Apache-2.0
// What `tessera tokenize` writes, refuses and names.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/cli/program.h"
#include "tests/cli/tiny_run.h"

namespace tessera::test {
namespace {

ProgramRun tokenize(const std::string& options) {
  write("letters.json", R"({"model": {"type": "BPE", "vocab": {"t": 0, "o": 1, "s": 2, "e": 3,
      "<e>": 4}, "merges": []}})");
  return run_tessera("tokenize letters.json " + options);
}

TEST_CASE("tokens are not written over what they are made of", "[cli][tokenize]") {
  write("to.txt", "to");
  for (const std::string output : {"to.txt", "./to.txt"}) {
    const ProgramRun run = tokenize("to.txt -o " + output);
    CHECK(run.exit_code == 2);
    CHECK(run.messages ==
          "tessera: --output " + output + " is read as a text: choose another name\n");
  }
  CHECK(text_of("to.txt") == "to");
  CHECK(tokenize("to.txt -o letters.json").messages ==
        "tessera: --output letters.json is read as the tokenizer: choose another name\n");
  write("config.json", R"({"architectures": ["GPT2LMHeadModel"]})");
  CHECK(tokenize("to.txt -o config.json").messages ==
        "tessera: --output config.json: exists and is JSON, no plain text: choose another name\n");
  CHECK(text_of("config.json").starts_with("{"));
  CHECK(tokenize("to.txt -o again.bin").exit_code == 0);
  CHECK(tokenize("to.txt -o again.bin").exit_code == 0);
}

TEST_CASE("files without a text are refused, and documents without one are counted",
          "[cli][tokenize]") {
  write("to.txt", "to");
  write("empty.txt", "");
  write("empty.jsonl", "{\"text\": \"\"}\n{\"text\": \"\"}\n");
  for (const std::string none : {"empty.txt", "empty.jsonl"}) {
    const ProgramRun run = tokenize(none + " -o none.bin --end-of-text '<e>'");
    CHECK(run.exit_code == 2);
    CHECK(run.messages == "tessera: " + none + ": there is no text to encode\n");
    CHECK_FALSE(std::filesystem::exists(run_folder() + "none.bin"));
  }
  const ProgramRun some = tokenize("to.txt empty.txt --print --end-of-text '<e>'");
  CHECK(some.exit_code == 0);
  CHECK(some.output == "0 1 4\n4\n");
  CHECK(some.messages == "tessera: warning: 1 of 2 documents have no text\n");
}

TEST_CASE("text that the tokenizer has no tokens for is counted", "[cli][tokenize]") {
  prepare();
  write("few.json", R"({"model": {"type": "WordPiece", "unk_token": "?", "vocab":
      {"?": 0, "to": 1, "see": 2}}, "pre_tokenizer": {"type": "Whitespace"}})");
  write("few.txt", "to see you");
  write("few.jsonl", "{\"text\": \"to see you\"}\n");
  const std::string why =
      ": 1 of 3 tokens stand for text that the tokenizer has no token for: is it one for such "
      "texts?";
  CHECK(run_tessera("tokenize few.json few.txt --print").messages ==
        "tessera: warning: few.json" + why + "\n");
  CHECK(run_tessera("tokenize few.json few.txt --documents line -o few.bin").exit_code == 0);
  for (const std::string file : {"few.txt", "few.jsonl"}) {
    const ProgramRun run = run_tessera(
        "train gpt.json --tokenizer few.json --sequence-length 2 -q "
        "--steps 1 --threads 1 --data " +
        file);
    INFO(run.messages);
    CHECK(run.exit_code == 0);
    CHECK(run.messages.find(file + why) != std::string::npos);
  }
}

TEST_CASE("pipes are read once, and not waited for if nobody writes", "[cli][tokenize]") {
  write("to.txt", "to");
  const std::string pipe = run_folder() + "silent";
  std::filesystem::remove(pipe);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  tokenize("to.txt --print");  // writes the tokenizer
  const ProgramRun silent = run_tessera("tokenize letters.json silent --print", "timeout 20");
  CHECK(silent.exit_code == 2);
  CHECK(silent.messages ==
        "tessera: silent: is a pipe that nobody writes into: start what writes first, or name a "
        "file\n");
  const ProgramRun read = run_tessera("tokenize letters.json silent --print",
                                      "sh -c 'printf to > silent & exec \"$@\"' x timeout 20");
  CHECK(read.exit_code == 0);
  CHECK(read.output == "0 1\n");
}

TEST_CASE("a tokenize that is stopped leaves nothing behind", "[cli][tokenize]") {
  tokenize("to.txt --print");  // writes the tokenizer
  const std::string pipe = run_folder() + "endless";
  std::filesystem::remove(pipe);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const ProgramRun stopped = run_tessera(
      "tokenize letters.json endless --documents line --end-of-text none -o stopped.bin",
      "sh -c 'exec 9<>endless; echo to >&9; \"$@\" & k=0; "
      "until [ -e stopped.bin.partial ] || [ $k = 500 ]; do k=$((k + 1)); sleep 0.02; done; "
      "[ $k = 500 ] || echo begun; kill -TERM $!; wait $!' x");
  CHECK(stopped.output == "begun\n");
  CHECK(stopped.exit_code == 128 + 15);
  CHECK_FALSE(std::filesystem::exists(run_folder() + "stopped.bin.partial"));
  CHECK_FALSE(std::filesystem::exists(run_folder() + "stopped.bin"));
}

TEST_CASE("what editors on Windows add is no part of a text", "[cli][tokenize]") {
  write("marked.txt", "\xEF\xBB\xBFto\r\nsee\r\n");
  CHECK(tokenize("marked.txt --documents line --print --end-of-text none").output ==
        "0 1\n2 3 3\n");
  write("marked.jsonl", "\xEF\xBB\xBF{\"text\": \"to\"}\r\n");
  CHECK(tokenize("marked.jsonl --print").output == "0 1\n");
  write("whole.txt", "\xEF\xBB\xBFto");
  CHECK(tokenize("whole.txt --print").output == "0 1\n");
}

TEST_CASE("options of tokenize that do nothing are refused or named", "[cli][tokenize]") {
  write("to.txt", "to");
  CHECK(tokenize("to.txt --print --key body").messages ==
        "tessera: --key means nothing without JSON lines among the files: leave it out\n");
  const ProgramRun run = tokenize("to.txt --print --special on");
  CHECK(run.exit_code == 0);
  CHECK(run.messages ==
        "tessera: warning: --special on: letters.json adds no tokens around a text\n");
}

}  // namespace
}  // namespace tessera::test
