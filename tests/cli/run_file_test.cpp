// SPDX-License-Identifier: Apache-2.0
// A training run as a file: read, overridden, written as it was, and run again.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

void write_run(const std::string& name, const std::string& text) {
  std::ofstream(run_folder() + name, std::ios::binary) << text;
}

std::string file_text(const std::string& name) {
  std::ifstream file(run_folder() + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Steps, losses and norms, as text.
std::string run_numbers(const std::string& name) {
  std::string numbers;
  std::ifstream file(run_folder() + name);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    numbers +=
        json["step"].dump() + " " + json["loss"].dump() + " " + json["grad_norm"].dump() + "\n";
  }
  return numbers;
}

constexpr const char* run = R"(# A run.
model = "gpt.json"
[data]
data = ["text.txt",      # once,
        "other#1.txt:2.5"]  # and 2.5 times
[optimizer]
steps = 4
learning-rate = 3e-3
betas = [0.9, 0.99]
[training_step]
batch = 2
[run]
runtime = "simulator"
ranks = 2
[output]
quiet = true
json = "run.json"
)";

void prepare_run() {
  write_run("gpt.json", R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2",
      "n_embd": 16, "n_head": 2, "n_layer": 1, "n_positions": 16, "vocab_size": 256})");
  std::string text;
  for (int k = 0; k < 40; ++k) text += "to train is to see it all again. ";
  write_run("text.txt", text);
  write_run("other#1.txt", std::string(text.rbegin(), text.rend()));
  write_run("run.toml", run);
}

std::string refused_run(const std::string& text) {
  write_run("bad.toml", text);
  const ProgramRun done = run_tessera("train bad.toml --data text.txt");
  CHECK(done.exit_code == 2);
  CHECK(done.output.empty());
  return done.messages;
}

TEST_CASE("a run writes nothing over the file that says what to run", "[cli][train]") {
  prepare_run();
  write_run("mine.run.toml", run);
  const ProgramRun beside = run_tessera("train mine.run.toml --json mine.json");
  CHECK(beside.exit_code == 0);
  CHECK(beside.messages.find("tessera: warning: mine.run.toml: was not written by a run, so the "
                             "options of this one are not written there\n") != std::string::npos);
  CHECK(file_text("mine.run.toml") == run);
  for (const std::string option : {"--json ", "--export=", "--csv ./"}) {
    const ProgramRun over = run_tessera("train mine.run.toml " + option + "mine.run.toml");
    CHECK(over.exit_code == 2);
    CHECK(over.messages.find("mine.run.toml is the file that says what to run: choose another "
                             "name\n") != std::string::npos);
  }
  CHECK(file_text("mine.run.toml") == run);
  const ProgramRun folder = run_tessera("train mine.run.toml --json .");
  CHECK(folder.messages.find("tessera: .: is a folder: name a file for the log\n") !=
        std::string::npos);
  CHECK_FALSE(std::filesystem::exists(run_folder() + "..run.toml"));
}

}  // namespace

TEST_CASE("a run file says what the command line says, and what it writes runs again",
          "[cli][runfile]") {
  prepare_run();
  const ProgramRun first = run_tessera("train run.toml");
  INFO(first.messages);
  REQUIRE(first.exit_code == 0);
  CHECK(first.output.empty());
  const std::string numbers = run_numbers("run.json");
  REQUIRE(run_tessera("train gpt.json --data 'text.txt,other#1.txt:2.5' --steps 4 --batch 2 "
                      "--learning-rate 3e-3 --betas 0.9,0.99 --runtime simulator --ranks 2 -q "
                      "--json flags.json")
              .exit_code == 0);
  CHECK(run_numbers("flags.json") == numbers);
  const std::string written = file_text("run.run.toml");
  CHECK(written.find("learning_rate = 3e-3\n") != std::string::npos);
  // What only looks like a number has quotes, as TOML wants it.
  REQUIRE(run_tessera("train run.toml --trace run.tessera --record-steps 0-1 --json ranges.json")
              .exit_code == 0);
  CHECK(file_text("ranges.run.toml").find("record_steps = \"0-1\"\n") != std::string::npos);
  CHECK(written.find("# warmup = 0\n") != std::string::npos);
  CHECK(written.find("data = [\"text.txt\", \"other#1.txt:2.5\"]\n") != std::string::npos);
  REQUIRE(run_tessera("train run.run.toml").exit_code == 0);
  CHECK(run_numbers("run.json") == numbers);
  CHECK(file_text("run.run.toml") == written);
}

TEST_CASE("the command line wins over the run file", "[cli][runfile]") {
  prepare_run();
  std::filesystem::remove_all(run_folder() + "saved-run");
  const ProgramRun done =
      run_tessera("train run.toml --steps=2 --json short.json --save saved-run --data text.txt");
  INFO(done.messages);
  REQUIRE(done.exit_code == 0);
  CHECK(run_numbers("short.json").find("2 ") != std::string::npos);
  CHECK(run_numbers("short.json").find("\n3 ") == std::string::npos);
  CHECK(file_text("short.run.toml") == file_text("saved-run/run.toml"));
  CHECK(file_text("short.run.toml").find("\nsteps = 2\n") != std::string::npos);
  CHECK(file_text("short.run.toml").find("\ndata = \"text.txt\"\n") != std::string::npos);
  write_run("wide.json", file_text("gpt.json").replace(file_text("gpt.json").find("16"), 2, "32"));
  const ProgramRun wide = run_tessera("train run.toml wide.json --steps 1 --json wide.log");
  CHECK(wide.exit_code == 0);
  CHECK(file_text("wide.run.toml").find("\nmodel = \"wide.json\"\n") != std::string::npos);
}

TEST_CASE("run files of editors and other systems are read", "[cli][runfile]") {
  prepare_run();
  REQUIRE(run_tessera("train run.toml").exit_code == 0);
  const std::string numbers = run_numbers("run.json");
  std::string text = run;
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string::npos;) text[at] = '\'';
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) {
    text.replace(at, 1, "\r\n");
  }
  write_run("other run.TOML", "\xEF\xBB\xBF" + text);
  const ProgramRun other = run_tessera("train 'other run.TOML'");
  INFO(other.messages);
  REQUIRE(other.exit_code == 0);
  CHECK(run_numbers("run.json") == numbers);
}

TEST_CASE("what a run file says wrongly is refused with its line", "[cli][runfile]") {
  prepare_run();
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"learning_rat = 1", "line 1: unknown option learning_rat, did you mean learning_rate?"},
      {"\n[optimiser]", "line 2: unknown section optimiser, did you mean optimizer?"},
      {"[output]\nsteps = 3",
       "line 2: steps stands under [output], but belongs under [optimizer]: move it there, or "
       "before the first section"},
      {"[data]\nmodel = \"gpt.json\"",
       "line 2: model stands under [data], but belongs before the first section: move it there"},
      {"steps = ten", "line 1: write texts in quotes: \"ten\""},
      {"steps = 3\nsteps = 4", "line 2: steps is there twice"},
      {"min-lr = 3\nmin_lr = 4", "line 2: min_lr is there twice"},
      {"quiet = 3", "line 1: quiet is 3, but must be true or false"},
      {"betas = [0.9\n, 0.95", "line 2: an array ends with ]"},
      {"betas = [\"0.9,0.8\", 0.95]", "line 1: betas: a part of an array has no comma"},
      {"steps 3", "line 1: steps: write steps = value"},
      {"json = \"a\nb\"", "line 1: a text has no end"},
      {"json = \"a\\q\"", "line 1: of escapes only"},
      {"steps = 3 4", "line 1: something follows the value"},
      {"optimizer.steps = 3", "line 1: keys have no dots: optimizer.steps"},
      {"steps = {a = 3}", "line 1: a value is missing"},
      {"steps = \"\"", "line 1: steps is empty: give it a value, or leave it out"},
      {"\nbetas = []", "line 2: betas is empty: give it a value, or leave it out"}};
  for (const auto& [text, message] : cases) {
    INFO(text);
    const std::string said = refused_run(text);
    CHECK(said.find("tessera: bad.toml: " + message) == 0);
  }
  CHECK(refused_run("steps = 0\nmodel = \"gpt.json\"").find("--steps") != std::string::npos);
  const std::string zero = std::string("model = \"a") + '\0' + "b\"";
  CHECK(refused_run(zero) == "tessera: bad.toml: line 1: a text has a control character\n");
  CHECK(refused_run("json = 'a\x01'").find("a text has a control character") != std::string::npos);
  CHECK(run_tessera("train none.toml").messages == "tessera: none.toml: cannot be read\n");
}

}  // namespace tessera::test
