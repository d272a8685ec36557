// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/cluster.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

namespace tessera::sim {
namespace {

const std::string presets_folder = std::string(TESSERA_SOURCE_DIR) + "/sim/cluster/presets/";

nlohmann::json preset_json() {
  std::ifstream file(presets_folder + "dgx-h100.json");
  return nlohmann::json::parse(file);
}

// Writes `text` as a cluster file of this test program and loads it.
Result<Cluster> load_text(const std::string& text) {
  const std::string path = std::string(TESSERA_BINARY_DIR) + "/cluster_test.json";
  std::ofstream(path, std::ios::binary) << text;
  return load_cluster(path, 1);
}

std::string complaint(const std::string& text) {
  const auto cluster = load_text(text);
  REQUIRE_FALSE(cluster.ok());
  CHECK(cluster.status().message().find('\n') == std::string::npos);
  return cluster.status().message();
}

}  // namespace

TEST_CASE("the shipped clusters load and have plausible numbers", "[cluster]") {
  const auto presets = cluster_presets();
  CHECK(std::is_sorted(presets.begin(), presets.end()));
  CHECK(presets.size() > 20);
  for (const std::string& name : cluster_presets()) {
    const auto cluster = load_cluster(name, 8);
    REQUIRE(cluster.ok());
    CHECK(cluster->name == name);
    CHECK(cluster->ranks() == 8 * cluster->gpus_per_node);
    CHECK(cluster->gpu.memory > Bytes{15'000'000'000});
    CHECK(cluster->gpu.bf16_flops_per_s > cluster->gpu.fp32_flops_per_s);
    CHECK(cluster->intra_node.bytes_per_s > cluster->inter_node.bytes_per_s);
  }
}

TEST_CASE("a preset and its file are the same cluster", "[cluster]") {
  const auto preset = load_cluster("dgx-h100", 2);
  const auto file = load_cluster(presets_folder + "dgx-h100.json", 2);
  REQUIRE(preset.ok());
  REQUIRE(file.ok());
  CHECK(preset->gpu.memory == file->gpu.memory);
  CHECK(preset->gpu.matmul_efficiency == file->gpu.matmul_efficiency);
  CHECK(preset->intra_node.bytes_per_s == file->intra_node.bytes_per_s);
  CHECK(preset->inter_node.latency_ns == file->inter_node.latency_ns);
  CHECK(preset->collective_launch_ns == file->collective_launch_ns);
}

TEST_CASE("a number of nodes that cannot be is refused", "[cluster]") {
  for (const Index nodes : {0, -1, -2'000'000'000, 1'000'001, 2'000'000'000}) {
    const auto cluster = load_cluster("dgx-h100", nodes);
    REQUIRE_FALSE(cluster.ok());
    CHECK(cluster.status().code() == Code::invalid_argument);
    CHECK(cluster.status().message().find("choose 1 to 1000000") != std::string::npos);
  }
}

TEST_CASE("a cluster that is neither preset nor file is refused with a suggestion", "[cluster]") {
  const auto cluster = load_cluster("dgx-h1000", 1);
  REQUIRE_FALSE(cluster.ok());
  CHECK(cluster.status().message() ==
        "cluster 'dgx-h1000' is neither a preset (did you mean dgx-h100?) nor a file that can be "
        "read");
  CHECK(load_cluster("h200", 1).status().message().find("did you mean dgx-h200 or nd-h200-v5?") !=
        std::string::npos);
  CHECK(load_cluster("xyzzy", 1).status().message() ==
        "cluster 'xyzzy' is neither a preset (tessera cluster list names them) nor a file that can "
        "be read");
}

TEST_CASE("a directory is no cluster", "[cluster]") {
  const auto cluster = load_cluster(presets_folder, 1);
  REQUIRE_FALSE(cluster.ok());
  CHECK(cluster.status().code() == Code::io_error);
  CHECK(cluster.status().message().find("is a directory") != std::string::npos);
}

TEST_CASE("every complaint about a cluster file names file and key", "[cluster]") {
  auto json = preset_json();
  SECTION("not JSON") { CHECK(complaint("{").find("not valid JSON") != std::string::npos); }
  SECTION("empty") { CHECK(complaint("").find("is empty") != std::string::npos); }
  SECTION("no object") {
    CHECK(complaint("[]").find("cluster_test.json: must be an object") != std::string::npos);
  }
  SECTION("an unknown key near a known one") {
    json["gpu"]["memory_byte"] = 1;
    CHECK(complaint(json.dump())
              .find("cluster_test.json: gpu.memory_byte is unknown: did you mean "
                    "'memory_bytes'?") != std::string::npos);
  }
  SECTION("a misspelled key is named before the missing one") {
    json["intra_node"].erase("latency_ns");
    json["intra_node"]["latency_us"] = 2;
    CHECK(complaint(json.dump()).find("did you mean 'latency_ns'?") != std::string::npos);
  }
  SECTION("an unknown key near none") {
    json["colour"] = "green";
    CHECK(complaint(json.dump()).find("colour is unknown: the keys are tessera_cluster, ") !=
          std::string::npos);
  }
  SECTION("a missing key") {
    json["gpu"].erase("memory_bytes");
    CHECK(complaint(json.dump()).find("gpu.memory_bytes is missing") != std::string::npos);
  }
  SECTION("a missing object") {
    json.erase("host");
    CHECK(complaint(json.dump()).find("host is missing") != std::string::npos);
  }
  SECTION("an object of the wrong type") {
    json["host"] = 3;
    CHECK(complaint(json.dump()).find("cluster_test.json: host must be an object") !=
          std::string::npos);
  }
  SECTION("a number as text") {
    json["gpus_per_node"] = "8";
    CHECK(complaint(json.dump()).find("gpus_per_node must be a number") != std::string::npos);
  }
  SECTION("half a GPU") {
    json["gpus_per_node"] = 7.5;
    CHECK(complaint(json.dump()).find("gpus_per_node must be a whole number") != std::string::npos);
  }
  SECTION("a negative rate") {
    json["gpu"]["bf16_flops_per_s"] = -1;
    CHECK(complaint(json.dump()).find("gpu.bf16_flops_per_s must be") != std::string::npos);
  }
  SECTION("an efficiency in per cent") {
    json["inter_node"]["efficiency"] = 95;
    CHECK(complaint(json.dump()).find("inter_node.efficiency must be 0.01 to 1, found 95") !=
          std::string::npos);
  }
  SECTION("a newer format") {
    json["tessera_cluster"] = 2;
    CHECK(complaint(json.dump()).find("the only version there is") != std::string::npos);
  }
}

TEST_CASE("numbers of a cluster that contradict each other are refused", "[cluster]") {
  const auto complaint_of = [](const char* object, const char* key, const nlohmann::json& value) {
    auto json = preset_json();
    json[object][key] = value;
    return complaint(json.dump());
  };
  CHECK(complaint_of("gpu", "fp32_flops_per_s", 2e15)
            .find("gpu.fp32_flops_per_s must not be above bf16_flops_per_s") != std::string::npos);
  CHECK(
      complaint_of("gpu", "fp8_flops_per_s", 1e12).find("gpu.fp8_flops_per_s must not be below") !=
      std::string::npos);
  CHECK(complaint_of("inter_node", "oversubscription", 4)
            .find("inter_node.oversubscription does nothing without nodes_per_pod") !=
        std::string::npos);
  CHECK(complaint_of("intra_node", "switch_gpus", 2)
            .find("intra_node.switch_gpus does nothing without shared_bytes_per_s") !=
        std::string::npos);
  CHECK(complaint_of("intra_node", "sockets_bytes_per_s", 2e9)
            .find("intra_node.sockets_bytes_per_s does nothing without shared_bytes_per_s") !=
        std::string::npos);
  CHECK(complaint_of("intra_node", "socket_gpus", 4)
            .find("intra_node.socket_gpus does nothing without shared_bytes_per_s") !=
        std::string::npos);
  CHECK(complaint_of("intra_node", "tree_ns", 2)
            .find("intra_node.tree_ns is of trees between nodes") != std::string::npos);
  CHECK(complaint_of("intra_node", "bytes_per_s", 1e20).find("must be 1e+06 to 1e+18") !=
        std::string::npos);
  auto json = preset_json();
  json["gpu"].erase("multiprocessors");
  CHECK(complaint(json.dump()).find("gpu.matmul says nothing without multiprocessors") !=
        std::string::npos);
  json = preset_json();
  json["nccl"]["version"] = "2.19";
  CHECK(load_text(json.dump()).ok());
  json["nccl"]["compute_capability"] = 100;
  CHECK(complaint(json.dump()).find("nccl.version 2.19 is older than GPUs of compute_capability") !=
        std::string::npos);
  json = preset_json();
  json["name"] = "";
  CHECK(complaint(json.dump()).find("name must not be empty") != std::string::npos);
}

TEST_CASE("numbers of a link belong to the links that have them", "[cluster]") {
  const std::pair<const char*, const char*> misplaced[] = {
      {"host", "launch_ns"},       {"host", "sqrt_ns"},           {"host", "shared_bytes_per_s"},
      {"host", "nccl_share"},      {"intra_node", "launch_ns"},   {"intra_node", "nodes_per_pod"},
      {"inter_node", "end_steps"}, {"inter_node", "switch_gpus"}, {"inter_node", "socket_gpus"}};
  for (const auto& [link, key] : misplaced) {
    auto json = preset_json();
    json[link][key] = 1;
    INFO(link << "." << key);
    CHECK(complaint(json.dump()).find(std::string(link) + "." + key + " is of ") !=
          std::string::npos);
  }
  auto json = preset_json();
  json["intra_node"]["fabric"] = "efa";
  CHECK(complaint(json.dump()).find("intra_node.fabric is a network") != std::string::npos);
}

TEST_CASE("sockets of more GPUs than a node has are named", "[cluster]") {
  for (const std::string& name : cluster_presets()) {
    INFO(name);
    CHECK(idle_numbers(*load_cluster(name, 1)).empty());
  }
  Cluster cluster = *load_cluster("l40s", 1);
  cluster.gpus_per_node = 3;
  REQUIRE(idle_numbers(cluster).size() == 1);
  CHECK(idle_numbers(cluster)[0] ==
        "cluster l40s: intra_node.sockets_bytes_per_s says nothing, as socket_gpus is 4 and a node "
        "has 3 GPUs");
  cluster.gpus_per_node = 2;
  CHECK(idle_numbers(cluster).size() == 2);
}

TEST_CASE("a network may be named, and its numbers changed", "[cluster]") {
  auto json = preset_json();
  json["inter_node"] = {{"fabric", "efa"}, {"bytes_per_s", 50e9}, {"launch_ns", 7}};
  const auto cluster = load_text(json.dump());
  REQUIRE(cluster.ok());
  CHECK(cluster->inter_node.sqrt_ns == 19'000);
  CHECK(cluster->inter_node.launch_ns == 7);
  json["inter_node"]["fabric"] = "infinband";
  CHECK(complaint(json.dump()).find("inter_node.fabric is unknown: did you mean 'infiniband'?") !=
        std::string::npos);
  json["inter_node"]["fabric"] = "xyzzy";
  CHECK(complaint(json.dump()).find("must be one of infiniband, roce, efa") != std::string::npos);
  json["inter_node"] = {{"bytes_per_s", 50e9}};
  CHECK(complaint(json.dump()).find("inter_node.efficiency is missing") != std::string::npos);
}

TEST_CASE("what NCCL is said to be must be known", "[cluster]") {
  auto json = preset_json();
  json["nccl"]["version"] = "2.11";
  CHECK(complaint(json.dump()).find("nccl.version must be one of 2.19, 2.27, 2.28, 2.30") !=
        std::string::npos);
  json["nccl"]["version"] = "2.30";
  json["nccl"]["cpu"] = "z80";
  CHECK(complaint(json.dump()).find("nccl.cpu must be intel, amd or arm") != std::string::npos);
  json["nccl"]["cpu"] = "arm";
  json["nccl"]["sharp"] = 1;
  CHECK(complaint(json.dump()).find("nccl.sharp must be true or false") != std::string::npos);
  json["nccl"]["sharp"] = true;
  json["sources"]["gpu.memory_bytes"] = "a data sheet";
  CHECK(load_text(json.dump()).ok());
  for (const char* nothing : {"gpo", "gpu.memory_byte", "gpu.", "", "nccl.version.minor"}) {
    auto other = json;
    other["sources"][nothing] = "a data sheet";
    INFO(nothing);
    CHECK(complaint(other.dump()).find("names nothing that the file has") != std::string::npos);
  }
  json["sources"]["gpu"] = 3;
  CHECK(complaint(json.dump()).find("sources.gpu must be a string") != std::string::npos);
}

TEST_CASE("every shipped cluster says where its links' numbers come from", "[cluster]") {
  for (const std::string& name : cluster_presets()) {
    CAPTURE(name);
    const auto text = cluster_text(name);
    REQUIRE(text.ok());
    const auto json = nlohmann::json::parse(*text);
    for (const char* key : {"gpu", "intra_node", "inter_node", "collective_launch_ns"}) {
      CHECK(json["sources"].contains(key));
    }
    CHECK(json["sources"].contains("nvls") == json.contains("nvls"));
  }
}

}  // namespace tessera::sim
