// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.h"

namespace tessera {
namespace {

using test::run_folder;
using test::run_tessera;

/// A simulated run of FSDP1 with noise, and what is planted.
void simulate(const std::string& name, const std::string& planted, int seed = 1) {
  const std::string batch = planted.find("--batch") == std::string::npos ? " --batch 4" : "";
  const std::string scheme =
      planted.find("--scheme") == std::string::npos ? " --scheme full_shard" : "";
  const auto run = run_tessera(
      "simulate " + test::example_model("gpt2") + " -q --nodes 2 --steps 4 --jitter 0.01 --seed " +
      std::to_string(seed) + batch + scheme + " " + planted + " -o " + name);
  INFO(run.messages);
  REQUIRE((run.exit_code == 0 || run.exit_code == 3));  // 3: it does not fit
}

nlohmann::json compare(const std::string& a, const std::string& b) {
  const auto run = run_tessera("compare " + a + " " + b + " --json");
  INFO(run.messages);
  REQUIRE(run.exit_code == 0);
  return nlohmann::json::parse(run.output);
}

/// The option for a cluster whose links have another speed or latency.
std::string with_links(const char* links, const char* key, double factor) {
  static int count = 0;
  const std::string name = "links" + std::to_string(count++) + ".json";
  std::ifstream preset(std::string(TESSERA_SOURCE_DIR) + "/sim/cluster/presets/dgx-h100.json");
  auto cluster = nlohmann::json::parse(preset);
  cluster[links][key] = cluster[links][key].get<double>() * factor;
  std::ofstream(run_folder() + name) << cluster;
  return "--cluster " + name;
}

struct Planted {
  std::string flags;
  std::string cause;
};

std::vector<Planted> planted_changes() {
  std::vector<Planted> all;
  const std::vector<std::pair<int, const char*>> late = {{5, "1.3"},  {0, "1.2"}, {15, "1.1"},
                                                         {9, "1.05"}, {3, "1.5"}, {12, "1.03"}};
  for (const auto& [rank, factor] : late) {
    const std::string name = std::to_string(rank);
    all.push_back({"--slow-rank " + name + ":" + factor,
                   "rank " + name + " computes longer than the median rank in B"});
  }
  const std::string transfers = ": transfers that compute does not hide";
  for (const double factor : {0.25, 0.5, 0.7}) {
    all.push_back({with_links("inter_node", "bytes_per_s", factor), transfers});
  }
  for (const double factor : {0.25, 0.5}) {
    all.push_back({with_links("intra_node", "bytes_per_s", factor), transfers});
  }
  all.push_back({with_links("inter_node", "latency_ns", 20), transfers});
  for (const char* flags :
       {"--backward-prefetch none", "--backward-prefetch post", "--forward-prefetch"}) {
    all.push_back({flags, "issued for another reason (prefetch)"});
  }
  for (const char* flags : {"--checkpointing full", "--attention-kernel unfused", "--loss chunked",
                            "--profile compile", "--batch 5"}) {
    all.push_back({flags, "compute of the median rank"});
  }
  return all;
}

#ifndef TESSERA_SANITIZED  // forty times the same code
TEST_CASE("compare names what was planted as the first cause, twenty of twenty", "[cli]") {
  simulate("a.tessera", "");
  const std::vector<Planted> all = planted_changes();
  CHECK(all.size() == 20);
  for (const Planted& planted : all) {
    simulate("b.tessera", planted.flags, 2);
    const nlohmann::json found = compare("a.tessera", "b.tessera");
    INFO(planted.flags << "\n" << found["causes"].dump(2));
    const bool others = planted.flags == "--checkpointing full";  // operations run twice
    CHECK(found["matched_share"].get<double>() >= (others ? 0.85 : 0.99));
    REQUIRE(!found["causes"].empty());
    CHECK(found["causes"][0]["what"].get<std::string>().find(planted.cause) != std::string::npos);
  }
}
#endif

TEST_CASE("compare names collectives that were changed, with both numbers", "[cli]") {
  const std::string scheme = "--scheme replicate ";
  simulate("a.tessera", scheme);
  for (const auto& [flags, changed] :
       {std::pair{"--bucket-cap 4000000", "all_reduce: 37 a step instead of 13"},
        std::pair{"--comm-hook fp16", "all_reduce: 237.4 MiB a step instead of 474.7"}}) {
    simulate("b.tessera", scheme + flags, 2);
    const nlohmann::json found = compare("a.tessera", "b.tessera");
    INFO(found["causes"].dump(2));
    CHECK(found["changed"].get<std::string>().find(changed) != std::string::npos);
    REQUIRE(!found["causes"].empty());
    CHECK(found["causes"][0]["what"].get<std::string>().find("other collectives") == 0);
    CHECK(found["causes"][0]["certain"] == true);
  }
  CHECK(run_tessera("compare a.tessera b.tessera").output.find("B has other collectives: all_") !=
        std::string::npos);
  CHECK(compare("a.tessera", "a.tessera")["changed"] == "");
}

TEST_CASE("compare names no cause that is not larger than what steps of a run differ by", "[cli]") {
  simulate("a.tessera", "");
  simulate("b.tessera", "", 2);
  const nlohmann::json found = compare("a.tessera", "b.tessera");
  INFO(found.dump(2));
  CHECK(found["matched_share"] == 1.0);
  CHECK(found["chance"].size() >= 2);
  for (const auto& [list, named] : {std::pair("causes", true), std::pair("chance", false)}) {
    for (const auto& cause : found[list]) {
      CHECK(cause["noise_ns"].get<std::int64_t>() > 0);
      CHECK((std::abs(cause["time_ns"].get<std::int64_t>()) >
             cause["noise_ns"].get<std::int64_t>()) == named);
    }
  }
  CHECK(run_tessera("compare a.tessera b.tessera").output.find("what steps of one run differ by") !=
        std::string::npos);
}

TEST_CASE("compare names who is late by the host, and collectives that slow compute down",
          "[cli]") {
  struct Case {
    std::string model, flags, planted, cause;
  };
  for (const Case& c :
       {Case{"gpt2", "--scheme zero3 --offload-optimizer nvme --batch 4", "--slow-rank 2:1.3",
             "rank 2 is busy (host, copies, I/O) longer than the median rank in B"},
        Case{"llama-3-8b", "--scheme fully_shard", with_links("inter_node", "bytes_per_s", 0.3),
             "compute that more or longer collectives run beside"}}) {
    const auto record = [&](const std::string& flags, const std::string& name) {
      const auto run =
          run_tessera("simulate " + test::example_model(c.model) +
                      " -q --nodes 2 --steps 4 --jitter 0.01 " + flags + " -o " + name);
      INFO(run.messages);
      REQUIRE((run.exit_code == 0 || run.exit_code == 3));
    };
    record(c.flags + " --seed 1", "a.tessera");
    record(c.flags + " --seed 2 " + c.planted, "b.tessera");
    const nlohmann::json found = compare("a.tessera", "b.tessera");
    INFO(found["causes"].dump(2));
    CHECK(found["matched_share"].get<double>() >= 0.99);
    REQUIRE(!found["causes"].empty());
    CHECK(found["causes"][0]["what"].get<std::string>().find(c.cause) != std::string::npos);
  }
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
  // By these `tessera inspect` finds the traces.
  CHECK(same["trace_a"] == same["trace_b"]);
  CHECK(std::filesystem::path(same["trace_a"].get<std::string>()).is_absolute());
  CHECK(same["matched_share"] == 1.0);
  CHECK(same["causes"].empty());
  CHECK(same["chance"].empty());
  CHECK(same["only"].empty());
  CHECK(same["peak_a"] == same["peak_b"]);
  const auto text = run_tessera("compare a.tessera a.tessera");
  CHECK(text.output.find("are the same ones (100.00 %)") != std::string::npos);
  CHECK(run_tessera("compare a.tessera none.tessera").exit_code == 2);
}

}  // namespace
}  // namespace tessera
