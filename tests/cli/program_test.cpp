// SPDX-License-Identifier: Apache-2.0
#include "tests/cli/program.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera::test {
namespace {

const std::string tiny = "'" + example_model("tiny") + "'";
const std::string llama = "'" + example_model("llama-3-8b") + "'";

std::string file_text(const std::string& name) {
  std::ifstream file(run_folder() + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("every sub-command explains itself with examples and exit codes", "[cli]") {
  for (const std::string command :
       {"", "train", "tokenize", "generate", "simulate", "ops", "estimate", "wrap", "report",
        "inspect", "collective", "cluster", "calibrate", "doctor", "completion"}) {
    CAPTURE(command);
    const ProgramRun run = run_tessera(command + " --help");
    CHECK(run.exit_code == 0);
    CHECK(run.messages.empty());
    CHECK(run.output.find("Examples:") != std::string::npos);
    CHECK(run.output.find("Exit codes:") != std::string::npos);
  }
}

TEST_CASE("--version prints the version", "[cli]") {
  const ProgramRun run = run_tessera("--version");
  CHECK(run.exit_code == 0);
  CHECK(run.output == "tessera " TESSERA_VERSION "\n");
}

TEST_CASE("simulate prints the exact parameter count and the report", "[cli]") {
  const ProgramRun run = run_tessera("simulate " + llama + " --steps 2 -o llama.tessera");
  CHECK(run.exit_code == 0);
  CHECK(run.messages.empty());
  CHECK(run.output.find("8,030,261,248 parameters in 33 units") != std::string::npos);
  CHECK(run.output.find("trace: llama.tessera") != std::string::npos);
  const ProgramRun report = run_tessera("report llama.tessera");
  CHECK(report.exit_code == 0);
  CHECK(run.output.ends_with(report.output));
}

TEST_CASE("a simulated Llama-3-8B has a plausible MFU", "[cli][validation]") {
  for (const std::string nodes : {"1", "8"}) {
    const ProgramRun run =
        run_tessera("simulate " + llama + " --json --steps 3 -o llama.tessera --nodes " + nodes);
    REQUIRE(run.exit_code == 0);
    const auto json = nlohmann::json::parse(run.output);
    CHECK(json["run"]["parameters"] == 8'030'261'248);
    CHECK(json["mfu"].get<double>() > 0.40);
    CHECK(json["mfu"].get<double>() < 0.55);
  }
}

TEST_CASE("--json of report and simulate is the same object", "[cli]") {
  const ProgramRun run = run_tessera("simulate " + tiny + " --json -o tiny.tessera");
  CHECK(run.exit_code == 0);
  const ProgramRun report = run_tessera("report tiny.tessera --json");
  CHECK(report.exit_code == 0);
  CHECK(run.output == report.output);
  const auto json = nlohmann::json::parse(report.output);
  CHECK(json["tessera_report"] == 1);
  CHECK(json["steps"].size() == 4);
  CHECK(json["ranks"].empty());
  const auto chosen =
      nlohmann::json::parse(run_tessera("report tiny.tessera --json --ranks 1,3").output);
  CHECK(chosen["ranks"].size() == 2);
  CHECK(chosen["ranks"][1]["rank"] == 3);
}

TEST_CASE("simulate --json warns as without it, and --quiet leaves only the JSON", "[cli]") {
  const std::string command = "simulate " + tiny + " --scheme replicate -o json.tessera";
  const ProgramRun table = run_tessera(command);
  const ProgramRun json = run_tessera(command + " --json");
  CHECK(table.messages.find("warning: ") != std::string::npos);
  CHECK(json.messages == table.messages);
  const ProgramRun quiet = run_tessera(command + " --json -q");
  CHECK(quiet.output == json.output);
  CHECK(quiet.messages.empty());
}

TEST_CASE("--quiet prints nothing", "[cli]") {
  const ProgramRun run = run_tessera("simulate " + tiny + " -q -o tiny.tessera");
  CHECK(run.exit_code == 0);
  CHECK(run.output.empty());
  CHECK(run.messages.empty());
  CHECK(std::filesystem::exists(run_folder() + "tiny.tessera"));
}

TEST_CASE("a run that does not fit writes its trace and exits with 3", "[cli]") {
  const ProgramRun run = run_tessera("simulate " + llama + " --batch 8 --steps 1 -o big.tessera");
  CHECK(run.exit_code == 3);
  CHECK(run.messages.find("out of memory") != std::string::npos);
  CHECK(run.output.find("does not fit") != std::string::npos);
  const ProgramRun report = run_tessera("report big.tessera");
  CHECK(report.exit_code == 0);
  CHECK(report.output.find("out_of_memory: ") != std::string::npos);
  // It is said before the first figure.
  CHECK(report.output.find("does not fit: ") < report.output.find("step time"));
  CHECK(run.output.find("fits only because") == std::string::npos);
}

TEST_CASE("what both streams print is whole lines where they are one file", "[cli]") {
  run_tessera("simulate " + llama + " --batch 8 --steps 1 -o big.tessera >both.txt 2>&1 #");
  const std::string both = file_text("both.txt");
  CHECK(both.find("\ntessera: rank 0 is out of memory") != std::string::npos);
  CHECK(both.find("\ntessera: it would fit with") != std::string::npos);
}

TEST_CASE("the same options and seed write the same bytes, another seed others", "[cli]") {
  const std::string common = "simulate " + tiny + " -q --jitter 0.1 --slow-rank 2:1.5 ";
  REQUIRE(run_tessera(common + "--seed 7 -o a.tessera").exit_code == 0);
  REQUIRE(run_tessera(common + "--seed 7 -o b.tessera").exit_code == 0);
  REQUIRE(run_tessera(common + "--seed 8 -o c.tessera").exit_code == 0);
  CHECK(file_text("a.tessera") == file_text("b.tessera"));
  CHECK(file_text("a.tessera") != file_text("c.tessera"));
}

TEST_CASE("no line of a report is longer than 100 columns", "[cli]") {
  REQUIRE(run_tessera("simulate " + llama +
                      " --nodes 128 --batch 8 --steps 2 --jitter 0.1 --record-ranks 0 "
                      "-o wide.tessera")
              .exit_code == 3);
  std::istringstream lines(run_tessera("report wide.tessera --ranks 0-9").output);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.size() <= 100);
  }
}

TEST_CASE("options may stand before the model", "[cli]") {
  CHECK(run_tessera("simulate --slow-rank 1:2 --slow-rank 2:3 " + tiny + " -q -o tiny.tessera")
            .exit_code == 0);
  const auto json = nlohmann::json::parse(run_tessera("report tiny.tessera --json").output);
  CHECK(json["run"]["options"]["slow_ranks"].size() == 2);
  CHECK(run_tessera("ops --units b " + tiny).exit_code == 0);
}

TEST_CASE("zero3 runs with its sizes and prints its own notation", "[cli]") {
  const std::string ops = "ops " + tiny + " --scheme zero3 --policy compatible --steps 2 ";
  const ProgramRun run = run_tessera(ops + "--format deepspeed");
  CHECK(run.exit_code == 0);
  CHECK(run.output.starts_with("PARAMS [("));
  CHECK(run.output.find("trace=COMPLETE") != std::string::npos);
  const ProgramRun refused = run_tessera(ops + "--format fsdp");
  CHECK(refused.exit_code == 2);
  CHECK(refused.messages.find("use --format deepspeed") != std::string::npos);
  CHECK(run_tessera("ops " + tiny + " --prefetch-bucket 100").exit_code == 2);
  REQUIRE(run_tessera("simulate " + llama + " --scheme zero3 --steps 3 -q -o zero3.tessera")
              .exit_code == 0);
  const auto json = nlohmann::json::parse(run_tessera("report zero3.tessera --json").output);
  CHECK(json["mfu"].get<double>() > 0.3);
  CHECK(json["mfu"].get<double>() < 0.7);
}

TEST_CASE("the slow rank is found", "[cli]") {
  REQUIRE(run_tessera("simulate " + llama + " --slow-rank 5:1.2 -q -o slow.tessera").exit_code ==
          0);
  const auto json = nlohmann::json::parse(run_tessera("report slow.tessera --json").output);
  CHECK(json["worst_ranks"]["by_compute"][0]["rank"] == 5);
  CHECK(json["worst_ranks"]["by_wait_caused"][0]["rank"] == 5);
}

TEST_CASE("communication hooks change what is reduced", "[cli]") {
  for (const auto& [hook, mark] : {std::pair<std::string, std::string>{"none", "float32"},
                                   {"fp16", "float16"},
                                   {"bf16", "bfloat16"},
                                   {"powersgd", "float32"}}) {
    CAPTURE(hook);
    const ProgramRun run = run_tessera("ops '" + example_model("g3") + "' --ranks 2 --steps 3 " +
                                       "--scheme replicate --comm-hook " + hook);
    CHECK(run.exit_code == 0);
    std::istringstream lines(run.output);
    bool found = false;
    for (std::string line; std::getline(lines, line);) {
      found |= line.find("all_reduce") != std::string::npos &&
               line.find(" " + mark) != std::string::npos;
    }
    CHECK(found);
  }
}

TEST_CASE("owners get gradients and broadcast what they stepped", "[cli]") {
  const std::string options = " --ranks 2 --scheme sharded_data_parallel";
  auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string ops = "ops '" + example_model("g3") + "'" + options;
  CHECK(count(run_tessera(ops).output, "(reduce_gradients)") == 2);
  CHECK(count(run_tessera(ops + " --reduce-buffer-size 0").output, "(reduce_gradients)") == 10);
  CHECK(run_tessera(ops + " --broadcast-dtype bf16").output.find("owner 0.broadcast") !=
        std::string::npos);
  REQUIRE(run_tessera("simulate " + tiny + " --scheme sharded_data_parallel -q -o own.tessera")
              .exit_code == 0);
  const auto json = nlohmann::json::parse(run_tessera("report own.tessera --json").output);
  CHECK(json["run"]["scheme"] == "sharded_data_parallel");
}

// The recorded runs of fairscale: 2 ranks, a network of three linear layers.
TEST_CASE("ops prints the collectives of recorded fairscale runs", "[cli][golden]") {
  std::ofstream(test::run_folder() + "mlp.json")
      << R"({"tessera_model": 1, "name": "mlp", "root": {"class": "Net",
    "modules": [
      {"name": "l0", "class": "Linear", "parameters": [{"name": "weight", "shape": [8, 4]},
                                                       {"name": "bias", "shape": [8]}]},
      {"name": "l1", "class": "Linear", "parameters": [{"name": "weight", "shape": [8, 8]},
                                                       {"name": "bias", "shape": [8]}]},
      {"name": "l2", "class": "Linear", "parameters": [{"name": "weight", "shape": [2, 8]},
                                                       {"name": "bias", "shape": [2]}]}]}})";
  const std::string ops =
      "ops mlp.json --ranks 2 --scheme sharded_data_parallel --format fairscale "
      "--reduce-buffer-size ";
  const std::string startup =
      "startup\n  broadcast 32 from 0\n  broadcast 8 from 0\n  broadcast 64 from 0\n"
      "  broadcast 8 from 0\n  broadcast 16 from 0\n  broadcast 2 from 0\nstep 0\n";
  const std::string step = "  broadcast 58 from 0\n  broadcast 72 from 1\n";
  CHECK(run_tessera(ops + "0").output ==
        startup +
            "  reduce 2->0\n  reduce 16->0\n  reduce 8->0\n  reduce 64->1\n"
            "  reduce 8->1\n  reduce 32->0\n" +
            step);
  CHECK(run_tessera(ops + "80").output == startup + "  reduce 72->1\n  reduce 58->0\n" + step);
  const ProgramRun groups = run_tessera(
      "ops mlp.json --ranks 4 --scheme sharded_data_parallel --format fairscale "
      "--process-group 2 --param-dtype fp16 --broadcast-dtype fp16");
  CHECK(groups.output == startup + "  reduce 72->1\n  reduce 58->0\n" + step);
}

TEST_CASE("ops prints one operation a line", "[cli]") {
  const ProgramRun run = run_tessera("ops " + tiny + " --ranks 2 --steps 1");
  CHECK(run.exit_code == 0);
  CHECK(run.output.find("all_gather") != std::string::npos);
  CHECK(run.output.find("reduce_scatter") != std::string::npos);
  const ProgramRun fsdp = run_tessera("ops " + tiny + " --ranks 2 --format fsdp");
  CHECK(fsdp.exit_code == 0);
  CHECK(fsdp.output.starts_with("["));
}

TEST_CASE("doctor says what this build can do", "[cli]") {
  const ProgramRun run = run_tessera("doctor --json");
  CHECK(run.exit_code == 0);
  const auto json = nlohmann::json::parse(run.output);
  CHECK(json["version"] == TESSERA_VERSION);
  CHECK(json["backends"]["simulator"] == "available");
  CHECK_FALSE(json["backends"]["cuda"].get<std::string>().empty());
  CHECK(json["display"] == false);
  CHECK(run_tessera("doctor").output.find("SQLite") != std::string::npos);
}

#ifdef TESSERA_HAS_INSPECTOR
TEST_CASE("inspect writes a picture without a display", "[cli]") {
  REQUIRE(run_tessera("simulate " + tiny + " -q -o tiny.tessera").exit_code == 0);
  const ProgramRun run =
      run_tessera("inspect tiny.tessera --screenshot tiny.png --size 640x360 --theme light");
  INFO(run.messages);
  CHECK(run.exit_code == 0);
  CHECK(file_text("tiny.png").starts_with("\x89PNG"));
}

TEST_CASE("a picture that would not be what was asked for is refused", "[cli]") {
  REQUIRE(run_tessera("simulate " + tiny + " -q -o tiny.tessera").exit_code == 0);
  const ProgramRun failing =
      run_tessera("inspect tiny.tessera --screenshot q.png --query 'SELECT missing FROM span'");
  CHECK(failing.exit_code == 2);
  CHECK(failing.messages == "tessera: The query fails: no such column: missing.\n");
  for (const std::string flag : {"--screenshot", "--query", "--size", "--time", "--against"}) {
    const ProgramRun empty = run_tessera("inspect tiny.tessera " + flag + " ''");
    INFO(flag << ": " << empty.messages);
    CHECK(empty.exit_code == 2);
    CHECK(empty.messages.find(flag) != std::string::npos);
    CHECK(empty.messages.find("is given nothing") != std::string::npos);
  }
  std::ofstream(run_folder() + "both.json")
      << run_tessera("compare tiny.tessera tiny.tessera --json").output;
  CHECK(run_tessera("inspect both.json --panel model --screenshot q.png").messages ==
        "tessera: the second trace of \"both.json\" changes nothing in a picture of --panel model: "
        "give --panel compare or leave one of them out\n");
  CHECK(file_text("q.png").empty());
}
#endif

}  // namespace tessera::test
