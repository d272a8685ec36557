// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace tessera::test {
namespace {

const std::string tiny = "'" + example_model("tiny") + "'";
const std::string simulate_tiny = "simulate " + tiny + " -o x.tessera ";

void write(const std::string& name, const std::string& text) {
  std::ofstream(run_folder() + name, std::ios::binary) << text;
}

// Exit code 2, nothing on stdout, and one line on stderr that contains `hint`.
void check_refused(const std::string& arguments, const std::string& hint) {
  const ProgramRun run = run_tessera(arguments);
  INFO("tessera " << arguments << "\n" << run.messages);
  CHECK(run.exit_code == 2);
  CHECK(run.output.empty());
  CHECK(std::count(run.messages.begin(), run.messages.end(), '\n') == 1);
  CHECK(run.messages.starts_with("tessera: "));
  CHECK(run.messages.ends_with("\n"));
  CHECK(run.messages.find(hint) != std::string::npos);
}

}  // namespace

TEST_CASE("words that the program does not know are refused by name", "[cli]") {
  check_refused(
      "", "name a sub-command: train, evaluate, tokenize, generate, simulate, ops, estimate, ");
  check_refused("simulat", "unknown sub-command simulat, did you mean simulate?");
  check_refused("xyzzy", "unknown sub-command xyzzy: choose train");
  check_refused("--bogus", "unknown option --bogus");
  check_refused("report x.tessera --jsn", "unknown option --jsn, did you mean --json?");
  check_refused("simulate " + tiny + " --node 3 -o x", "did you mean --nodes?");
  check_refused("simulate " + tiny + " --zzz", "see tessera simulate --help");
  check_refused("report a b", "unexpected argument b");
  check_refused("doctor x", "unexpected argument x");
}

TEST_CASE("a missing argument is named", "[cli]") {
  check_refused("simulate", "MODEL is required");
  check_refused("simulate " + tiny + " -o", "--output");
  check_refused("ops", "MODEL is required");
  check_refused("report", "FILE is required");
  check_refused("inspect --panel memory", "no trace is given");
}

TEST_CASE("an option that a shell gave nothing is refused of simulations, too", "[cli]") {
  for (const std::string command : {"ops ", "simulate -o x.tessera "}) {
    check_refused(command + tiny + " --units ''", "--units is given nothing");
    check_refused(command + tiny + " --scheme replicate --bucket-caps ''",
                  "--bucket-caps is given nothing");
  }
}

TEST_CASE("a model that cannot be read is refused", "[cli]") {
  for (const std::string command : {"ops ", "simulate -o x.tessera "}) {
    check_refused(command + "missing.json", "missing.json");
    check_refused(command + ".", "is a directory");
    write("unknown.json", R"({"architectures": ["FooForCausalLM"]})");
    check_refused(command + "unknown.json", "FooForCausalLM");
    write("type.json", R"({"architectures": ["LlamaForCausalLM"], "hidden_size": "large"})");
    check_refused(command + "type.json", "hidden_size must be an integer");
    write("text.json", "hello");
    check_refused(command + "text.json", "text.json");
    write("empty.json", "");
    check_refused(command + "empty.json", "empty.json");
  }
}

TEST_CASE("numbers that make no sense are refused", "[cli]") {
  for (const std::string option : {"--nodes", "--steps", "--batch", "--accumulation"}) {
    for (const std::string value : {"0", "-1", "abc", "99999999999999999999"}) {
      check_refused(simulate_tiny + option + " " + value, option + ": ");
    }
    check_refused(simulate_tiny + option + " ''", option);
  }
  check_refused("ops " + tiny + " --ranks 0", "--ranks: '0' is out of range, choose 1 to");
  check_refused("ops " + tiny + " --ranks -2", "--ranks: '-2' is out of range");
  check_refused("ops " + tiny + " --steps 0", "--steps: ");
  check_refused(simulate_tiny + "--nodes 1.5",
                "--nodes: '1.5' is no whole number, choose 1 to 1000000; see tessera simulate");
  check_refused("wrap " + tiny + " --ranks 1.5", "--ranks: '1.5' is no whole number, choose 1 to");
  check_refused(simulate_tiny + "--json=maybe", "--json takes no value, and is given 'maybe'");
  check_refused(simulate_tiny + "--nodes 1 --nodes 2", "--nodes is given 2 times: give it once");
  check_refused(simulate_tiny + "--nodes", "--nodes is given no value: add one");
  check_refused(simulate_tiny + "--batch 2.0", "--batch: '2.0' is no whole number, choose 1");
  check_refused(simulate_tiny + "--seed -1", "--seed: '-1' is out of range");
  for (const std::string value : {"1.5", "1", "-0.1", "nan", "inf", "much"}) {
    check_refused(simulate_tiny + "--jitter " + value, "choose 0 to 0.99");
  }
  check_refused("simulate '" + example_model("llama-3-8b") + "' -o x --batch 1000000",
                "of 8192 tokens at once, choose at most 2048");
  check_refused("simulate '" + example_model("llama-3-8b") + "' -o x --sequence-length 9000",
                "at most 8192 tokens");
}

TEST_CASE("ranks and clusters that do not exist are refused", "[cli]") {
  check_refused(simulate_tiny + "--cluster dgx-h1000", "neither a preset (did you mean dgx-h100?)");
  check_refused(simulate_tiny + "--cluster .", "is a directory");
  for (const std::string value : {"3", "3:", ":2", "x:2", "3:x", "3:2:1"}) {
    check_refused(simulate_tiny + "--slow-rank " + value, "give RANK:FACTOR");
  }
  check_refused(simulate_tiny + "--slow-rank ''", "--slow-rank is given nothing");
  for (const std::string value : {"3:0", "3:-1", "3:nan", "3:inf", "3:1e9"}) {
    check_refused(simulate_tiny + "--slow-rank " + value, "choose a factor of 0.01 to 1000");
  }
  check_refused(simulate_tiny + "--slow-rank 99:2", "99");
  check_refused(simulate_tiny + "--slow-rank 3:2 --slow-rank 3:1.5", "RANK 3 is given twice");
  check_refused(simulate_tiny + "--slow-link 0:2 --slow-link 0:2", "NODE 0 is given twice");
  check_refused(simulate_tiny + "--slow-link 0", "give NODE:FACTOR");
  check_refused(simulate_tiny + "--slow-link 0:1", "a factor of 1 changes nothing");
  check_refused(simulate_tiny + "--slow-rank 3:1.0", "a factor of 1 changes nothing");
  check_refused(simulate_tiny + "--slow-link 0:0", "choose a factor of 0.01 to 1000");
  check_refused(simulate_tiny + "--slow-link 1:2", "nodes are 0 to 0");
  check_refused(simulate_tiny + "--record-ranks 5-2", "--record-ranks 5-2");
  check_refused(simulate_tiny + "--record-ranks 8", "only ranks 0 to 7");
  check_refused(simulate_tiny + "--record-ranks 0-99", "--record-ranks 0-99: the run has only");
  for (const std::string text : {"5-2", "-1", "1-", "x", "1-2-3", "3000000000"}) {
    check_refused(simulate_tiny + "--record-steps '" + text + "'", "--record-steps " + text + ": ");
  }
  check_refused(simulate_tiny + "--record-steps ''", "--record-steps is given nothing");
  check_refused(simulate_tiny + "--record-steps 100", "the run has only the steps 0 to ");
  check_refused(simulate_tiny + "--record-steps 0-99", "--record-steps 0-99: the run has only the");
}

TEST_CASE("choices that do not exist are refused", "[cli]") {
  check_refused(simulate_tiny + "--scheme ddp", "fully_shard");
  check_refused(simulate_tiny + "--param-dtype int8", "--param-dtype");
  check_refused(simulate_tiny + "--checkpointing some", "--checkpointing");
  check_refused(simulate_tiny + "--units layers.99", "layers.99");
  check_refused(simulate_tiny + "--wrap NoSuchClass",
                "--wrap NoSuchClass: tiny has no module of class");
  check_refused(simulate_tiny + "--wrap Linear --units out", "--units or --wrap");
  check_refused(simulate_tiny + "--comm-hook fp16", "--comm-hook means nothing to the scheme");
  check_refused(simulate_tiny + "--scheme replicate --comm-hook zip", "--comm-hook: ");
  check_refused(
      simulate_tiny + "--broadcast-dtype bf16",
      "--broadcast-dtype means nothing to the scheme fully_shard: leave it out, it is for "
      "sharded_data_parallel");
  check_refused(simulate_tiny + "--scheme sharded_data_parallel --units out",
                "--units means nothing to the scheme");
  check_refused(
      "ops " + tiny + " --scheme sharded_data_parallel --format fsdp",
      "--format fsdp cannot show the scheme sharded_data_parallel: use --format fairscale");
  check_refused("ops " + tiny + " --scheme sharded_data_parallel --ranks 4 --process-group 3", "3");
}

TEST_CASE("a trace that cannot be written is refused before the run", "[cli]") {
  check_refused("simulate " + tiny + " -o no/such/folder/x.tessera", "no/such/folder/x.tessera");
  check_refused("simulate " + tiny + " -o .", "directory");
  write("precious.txt", "not a trace, but somebody's work");
  check_refused("simulate " + tiny + " -o precious.txt", "exists and is no trace");
  CHECK(std::filesystem::file_size(run_folder() + "precious.txt") == 32);
  // Other programs keep SQLite databases, too.
  const std::string database = "SQLite format 3" + std::string(4081, '\0');
  write("bookmarks.sqlite", database);
  for (const char* command : {"simulate ", "trace import "}) {
    check_refused(command + (command[0] == 's' ? tiny : "precious.txt") + " -o bookmarks.sqlite",
                  "exists and is no trace");
  }
  std::ifstream kept(run_folder() + "bookmarks.sqlite", std::ios::binary);
  CHECK(std::string(std::istreambuf_iterator<char>(kept), {}) == database);
}

TEST_CASE("where there is a recording, who asks for its trace is told its name", "[cli]") {
  write("gone.tessera.partial", "");
  check_refused("report gone.tessera",
                "There is no file \"gone.tessera\", but its recording, which goes on or was "
                "stopped: name \"gone.tessera.partial\".");
}

TEST_CASE("a file that is no whole trace is refused", "[cli]") {
  REQUIRE(run_tessera(simulate_tiny + "-q").exit_code == 0);
  std::ifstream file(run_folder() + "x.tessera", std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  const std::string trace = text.str();
  REQUIRE(trace.size() > 10'000);
  write("half.tessera", trace.substr(0, trace.size() / 2));
  write("start.tessera", trace.substr(0, 50));
  std::string foreign = trace;
  foreign[68] = foreign[69] = foreign[70] = foreign[71] = 0;  // SQLite's application_id
  write("foreign.sqlite", foreign);
  write("text.tessera", "hello");
  write("empty.tessera", "");
#ifdef TESSERA_HAS_INSPECTOR
  const std::vector<std::string> commands = {"report ", "inspect --screenshot x.png "};
#else
  const std::vector<std::string> commands = {"report "};
#endif
  for (const std::string& command : commands) {
    check_refused(command + "half.tessera", "half.tessera");
    check_refused(command + "start.tessera", "start.tessera");
    check_refused(command + "foreign.sqlite", "not a trace");
    check_refused(command + "text.tessera", "text.tessera");
    check_refused(command + "empty.tessera", "empty.tessera");
    check_refused(command + "missing.tessera", "missing.tessera");
    check_refused(command + ".", "directory");
  }
  check_refused("report x.tessera --ranks 8", "only ranks 0 to 7");
}

TEST_CASE("what the inspector cannot show is refused", "[cli]") {
#ifdef TESSERA_HAS_INSPECTOR
  REQUIRE(run_tessera(simulate_tiny + "-q").exit_code == 0);
  check_refused("inspect x.tessera --size big", "--size big");
  check_refused("inspect x.tessera --time 5:1", "--time 5:1");
  check_refused("inspect x.tessera --panel foo", "--panel");
  check_refused("inspect x.tessera --scale 9", "--scale");
  check_refused("inspect x.tessera", "display");
#else
  check_refused("inspect x.tessera", "built without the inspector");
#endif
}

}  // namespace tessera::test
