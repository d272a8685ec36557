// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera {
namespace {

using test::run_folder;
using test::run_tessera;

/// A simulated run of FSDP1 with noise, and what is planted.
void simulate(const std::string& name, const std::string& planted, int seed = 1) {
  const auto run = run_tessera("simulate " + test::example_model("gpt2") +
                               " -q --scheme full_shard --nodes 2 --batch 4 --steps 3 --jitter 0.01"
                               " --seed " +
                               std::to_string(seed) + " " + planted + " -o " + name);
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
}

nlohmann::json compare(const std::string& a, const std::string& b) {
  const auto run = run_tessera("compare " + a + " " + b + " --json");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.output);
}

std::string slower_links() {
  std::ifstream preset(std::string(TESSERA_SOURCE_DIR) + "/sim/cluster/presets/dgx-h100.json");
  auto cluster = nlohmann::json::parse(preset);
  cluster["inter_node"]["bytes_per_s"] = cluster["inter_node"]["bytes_per_s"].get<double>() / 4;
  std::ofstream(run_folder() + "slower.json") << cluster;
  return "--cluster slower.json";
}

TEST_CASE("compare names what was planted as the first cause", "[cli]") {
  simulate("a.tessera", "");
  const auto first = [](const std::string& planted) {
    simulate("b.tessera", planted, 2);
    const nlohmann::json found = compare("a.tessera", "b.tessera");
    INFO(found.dump(2));
    CHECK(found["matched_share"].get<double>() >= 0.99);
    REQUIRE(!found["causes"].empty());
    CHECK(found["causes"][0]["time_ns"].get<std::int64_t>() > 0);
    return found["causes"][0]["what"].get<std::string>();
  };
  CHECK(first("--slow-rank 5:1.3") ==
        "rank 5 computes longer than the median rank in B, and the others wait for it");
  CHECK(first(slower_links()).find(": transfers that compute does not hide") != std::string::npos);
  CHECK(first("--backward-prefetch none").find("issued for another reason (prefetch)") !=
        std::string::npos);
}

TEST_CASE("compare pairs the collectives of a torch run with those of the same tree here",
          "[cli]") {
  const auto linear = [](const std::string& name, int rows, int columns) {
    return nlohmann::json{{"name", name},
                          {"class", "Linear"},
                          {"parameters", {{{"name", "weight"}, {"shape", {rows, columns}}}}}};
  };
  const auto block = [&](const std::string& name) {
    return nlohmann::json{{"name", name},
                          {"class", "Block"},
                          {"modules", {linear("up", 16, 8), linear("down", 8, 16)}}};
  };
  const nlohmann::json layers{
      {"name", "layers"}, {"class", "ModuleList"}, {"modules", {block("0"), block("1")}}};
  const nlohmann::json root{{"class", "Model"},
                            {"modules", {linear("embed", 8, 8), layers, linear("head", 8, 8)}}};
  std::ofstream(run_folder() + "tree.json") << nlohmann::json{
      {"tessera_model", 1}, {"name", "tree"}, {"root", root}, {"units", {"layers.0", "layers.1"}}};
  const std::string data = std::string(TESSERA_SOURCE_DIR) + "/tests/exchange/data/torch-fsdp2-";
  const auto imported =
      run_tessera("trace import " + data + "0.json.gz " + data + "1.json.gz -q -o torch.tessera");
  INFO(imported.messages);
  REQUIRE(imported.exit_code == 0);
  const auto simulated = run_tessera(
      "simulate tree.json -q --scheme fully_shard --nodes 1 --steps 2"
      " -o here.tessera");
  INFO(simulated.messages);
  REQUIRE(simulated.exit_code == 0);
  const nlohmann::json found = compare("torch.tessera", "here.tessera");
  INFO(found.dump(2));
  CHECK(found["collectives_only"] == true);
  CHECK(found["matched"] == 16);
  CHECK(found["matched_share"].get<double>() >= 0.99);
  CHECK(found["other_reason"] == 0);
}

TEST_CASE("compare finds nothing between a trace and itself", "[cli]") {
  simulate("a.tessera", "");
  const nlohmann::json same = compare("a.tessera", "a.tessera");
  CHECK(same["matched_share"] == 1.0);
  CHECK(same["causes"].empty());
  CHECK(same["only"].empty());
  CHECK(same["peak_a"] == same["peak_b"]);
  const auto text = run_tessera("compare a.tessera a.tessera");
  CHECK(text.output.find("are the same ones (100.00 %)") != std::string::npos);
  CHECK(run_tessera("compare a.tessera none.tessera").exit_code == 2);
}

}  // namespace
}  // namespace tessera
