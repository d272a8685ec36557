// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/cluster/presets.h"

namespace tessera::sim {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t nodes_max = 1'000'000;

// Reads one object of the file; the first complaint stays.
class ObjectReader {
 public:
  ObjectReader(const Json& json, std::string where, Status& status)
      : json_(json), where_(std::move(where)), status_(status) {
    if (!json_.is_object()) fail("", "must be an object {...}");
  }
  ~ObjectReader() {
    if (!json_.is_object()) return;
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) fail(key, "is unknown: see docs/simulator.md for the keys");
    }
  }

  double number(const char* key, double least, double most) {
    known_.insert(key);
    const bool given = json_.is_object() && json_.contains(key);
    if (!given) fail(key, "is missing");
    if (!given) return least;
    if (!json_[key].is_number()) {
      fail(key, "must be a number");
      return least;
    }
    const double value = json_[key].get<double>();
    if (!(value >= least && value <= most)) {
      fail(key, fmt::format("must be {:g} to {:g}, found {:g}", least, most, value));
    }
    return value;
  }
  double positive(const char* key) { return number(key, 1, 1e21); }
  double share(const char* key) { return number(key, 0.01, 1); }
  Time nanoseconds(const char* key) { return static_cast<Time>(number(key, 0, 1e12)); }

  std::string text(const char* key) {
    known_.insert(key);
    if (json_.is_object() && json_.contains(key) && json_[key].is_string()) {
      return json_[key].get<std::string>();
    }
    fail(key, "must be a string");
    return "";
  }

  const Json& object(const char* key) {
    static const Json none;
    known_.insert(key);
    return json_.is_object() && json_.contains(key) ? json_[key] : none;
  }

 private:
  void fail(const std::string& key, const std::string& what) {
    if (!status_.ok()) return;
    status_ = Status(Code::invalid_argument, fmt::format("{}{} {}", where_, key, what));
  }

  const Json& json_;
  const std::string where_;
  Status& status_;
  std::set<std::string> known_;
};

Gpu read_gpu(const Json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where, status);
  Gpu gpu;
  gpu.name = reader.text("name");
  gpu.memory = Bytes{static_cast<std::int64_t>(reader.number("memory_bytes", 1, 1e15))};
  gpu.bf16_flops_per_s = reader.positive("bf16_flops_per_s");
  gpu.fp32_flops_per_s = reader.positive("fp32_flops_per_s");
  gpu.matmul_efficiency = reader.share("matmul_efficiency");
  gpu.attention_efficiency = reader.share("attention_efficiency");
  gpu.memory_bytes_per_s = reader.positive("memory_bytes_per_s");
  gpu.memory_efficiency = reader.share("memory_efficiency");
  gpu.kernel_launch_ns = reader.nanoseconds("kernel_launch_ns");
  return gpu;
}

Link read_link(const Json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where, status);
  Link link;
  link.bytes_per_s = reader.positive("bytes_per_s");
  link.efficiency = reader.share("efficiency");
  link.latency_ns = reader.nanoseconds("latency_ns");
  return link;
}

Result<Cluster> parse_cluster(std::string_view text, const std::string& source) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return Status(Code::invalid_argument, fmt::format("{}: not valid JSON", source));
  }
  Status status;
  Cluster cluster;
  {
    ObjectReader reader(json, source + ": ", status);
    if (reader.number("tessera_cluster", 1, 1e9) != 1 && status.ok()) {
      status = Status(Code::not_supported,
                      fmt::format("{}: tessera_cluster must be 1, the only version there is", source));
    }
    cluster.name = reader.text("name");
    cluster.gpus_per_node = static_cast<Index>(reader.number("gpus_per_node", 1, 4096));
    cluster.gpu = read_gpu(reader.object("gpu"), source + ": gpu.", status);
    cluster.intra_node = read_link(reader.object("intra_node"), source + ": intra_node.", status);
    cluster.inter_node = read_link(reader.object("inter_node"), source + ": inter_node.", status);
    cluster.host = read_link(reader.object("host"), source + ": host.", status);
    cluster.collective_launch_ns = reader.nanoseconds("collective_launch_ns");
  }
  if (!status.ok()) return status;
  return cluster;
}

Result<Cluster> read_cluster(const std::string& name_or_path) {
  std::string known;
  for (const ClusterPreset& preset : shipped_clusters()) {
    if (preset.name == name_or_path) return parse_cluster(preset.json, name_or_path);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", preset.name);
  }
  std::error_code error;
  if (std::filesystem::is_directory(name_or_path, error)) {
    return Status(Code::io_error,
                  fmt::format("cluster {} is a directory: name a JSON file in it", name_or_path));
  }
  std::ifstream file(name_or_path, std::ios::binary);
  if (!file) {
    return Status(Code::invalid_argument,
                  fmt::format("cluster '{}' is neither a preset ({}) nor a file that can be read",
                              name_or_path, known));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return parse_cluster(text.str(), name_or_path);
}

}  // namespace

Result<Cluster> load_cluster(const std::string& name_or_path, Index nodes) {
  TESSERA_ASSIGN(Cluster cluster, read_cluster(name_or_path));
  const std::int64_t ranks = std::int64_t{nodes} * cluster.gpus_per_node;
  if (nodes < 1 || ranks > nodes_max * 8) {
    return Status(Code::invalid_argument,
                  fmt::format("{} nodes: simulate 1 to {}", nodes, nodes_max));
  }
  cluster.nodes = nodes;
  return cluster;
}

std::vector<std::string> cluster_presets() {
  std::vector<std::string> names;
  for (const ClusterPreset& preset : shipped_clusters()) names.emplace_back(preset.name);
  return names;
}

}  // namespace tessera::sim
