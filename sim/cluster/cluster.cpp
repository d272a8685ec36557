// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/text/json_reader.h"
#include "engine/text/nearest_word.h"
#include "sim/cluster/object_reader.h"
#include "sim/cluster/presets.h"
#include "sim/cluster/read_gpu.h"
#include "sim/cluster/read_network.h"

namespace tessera::sim {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t ranks_max = 8'000'000;

HostMemory read_host_memory(const Json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where, {"bytes_per_s", "links_bytes_per_s"}, status);
  HostMemory memory;
  memory.bytes_per_s = reader.rate("bytes_per_s");
  if (reader.has("links_bytes_per_s")) {
    memory.links_bytes_per_s = reader.rate("links_bytes_per_s");
  }
  return memory;
}

Nvme read_nvme(const Json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where,
                      {"read_bytes_per_s", "write_bytes_per_s", "latency_ns",
                       "direct_read_bytes_per_s", "direct_write_bytes_per_s"},
                      status);
  Nvme nvme;
  nvme.read_bytes_per_s = reader.rate("read_bytes_per_s");
  nvme.write_bytes_per_s = reader.rate("write_bytes_per_s");
  nvme.latency_ns = reader.nanoseconds("latency_ns");
  if (reader.has("direct_read_bytes_per_s")) {
    nvme.direct_read_bytes_per_s = reader.rate("direct_read_bytes_per_s");
  }
  if (reader.has("direct_write_bytes_per_s")) {
    nvme.direct_write_bytes_per_s = reader.rate("direct_write_bytes_per_s");
  }
  return nvme;
}

// Whether the file has what "gpu.matmul" names.
bool has_path(const Json& json, std::string_view path) {
  const Json* at = &json;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string part(path.substr(0, dot));
    if (!at->is_object() || !at->contains(part)) return false;
    if (dot == std::string_view::npos) return true;
    at = &(*at)[part];
    path.remove_prefix(dot + 1);
  }
}

// They are for people; a key that says nothing is a mistake all the same.
void check_sources(const Json& cluster, ObjectReader& reader) {
  const Json& sources = cluster["sources"];
  if (!sources.is_object()) return reader.fail("sources", "must be an object {...}");
  for (const auto& [key, value] : sources.items()) {
    if (!value.is_string()) reader.fail("sources." + key, "must be a string");
    if (!has_path(cluster, key)) {
      reader.fail("sources." + key, "names nothing that the file has: \"gpu\" or \"gpu.matmul\"");
    }
  }
}

Result<Cluster> read_cluster(std::string_view text, const std::string& source) {
  TESSERA_ASSIGN(const Json json, parse_json(text, source));
  Status status;
  Cluster cluster;
  ObjectReader reader(
      json, source + ": ",
      {"tessera_cluster", "name", "gpus_per_node", "gpu", "intra_node", "inter_node", "nvls",
       "nccl", "host", "host_memory", "nvme", "collective_launch_ns", "collective_floor_ns",
       "spread", "measured", "sources"},
      status);
  const std::int64_t version = reader.integer("tessera_cluster", 1, 1e9);
  if (status.ok() && version != 1) {
    return Status(Code::not_supported,
                  fmt::format("{}: tessera_cluster must be 1, the only version there is, found {}",
                              source, version));
  }
  cluster.name = reader.text("name");
  if (status.ok() && cluster.name.empty()) reader.fail("name", "must not be empty");
  cluster.gpus_per_node = static_cast<Index>(reader.integer("gpus_per_node", 1, 4096));
  cluster.gpu = read_gpu(reader.object("gpu"), source + ": gpu.", status);
  cluster.intra_node =
      read_link(reader.object("intra_node"), source + ": intra_node.", status, cluster.intra_node);
  cluster.inter_node =
      read_link(reader.object("inter_node"), source + ": inter_node.", status, cluster.inter_node);
  cluster.host = read_link(reader.object("host"), source + ": host.", status, {});
  if (reader.has("host_memory")) {
    cluster.host_memory =
        read_host_memory(reader.object("host_memory"), source + ": host_memory.", status);
  }
  if (reader.has("nvme")) {
    cluster.nvme = read_nvme(reader.object("nvme"), source + ": nvme.", status);
  }
  if (reader.has("nvls")) {
    cluster.nvls = read_nvls(reader.object("nvls"), source + ": nvls.", status);
  }
  if (reader.has("nccl")) {
    cluster.nccl = read_nccl(reader.object("nccl"), source + ": nccl.", status);
  }
  cluster.collective_launch_ns = reader.nanoseconds("collective_launch_ns");
  if (reader.has("collective_floor_ns")) {
    cluster.collective_floor_ns = reader.nanoseconds("collective_floor_ns");
  }
  if (reader.has("sources")) check_sources(json, reader);
  if (reader.has("spread")) {
    ObjectReader spread(reader.object("spread"), source + ": spread.", {"gpu", "node"}, status);
    cluster.spread = {spread.number("gpu", 0, 0.5), spread.number("node", 0, 0.5)};
  }
  if (reader.has("measured")) {
    cluster.measured = read_measured(reader.object("measured"), source + ": measured", status);
  }
  if (!status.ok()) return status;
  return cluster;
}

// "H200" is a part of several names, and a letter away from another.
std::string meant_by(std::string word) {
  for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  const std::vector<std::string> names = cluster_presets();
  std::vector<std::string> having;
  for (const std::string& name : names) {
    if (word.size() >= 3 && name.find(word) != std::string::npos) having.push_back(name);
  }
  if (!having.empty()) return fmt::format("did you mean {}?", fmt::join(having, " or "));
  const std::string_view nearest = nearest_word(word, {names.begin(), names.end()});
  return nearest.empty() ? "tessera cluster list names them"
                         : fmt::format("did you mean {}?", nearest);
}

Result<std::string> read_text(const std::string& name_or_path) {
  for (const ShippedFile& preset : shipped_clusters()) {
    if (preset.name == name_or_path) return std::string(preset.json);
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
                              name_or_path, meant_by(name_or_path)));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

Result<Cluster> parse_cluster(std::string_view json, const std::string& source, Index nodes) {
  TESSERA_ASSIGN(Cluster cluster, read_cluster(json, source));
  const std::int64_t nodes_max = ranks_max / cluster.gpus_per_node;
  if (nodes < 1 || nodes > nodes_max) {
    return Status(Code::invalid_argument,
                  fmt::format("{} nodes of {}: choose 1 to {}", nodes, cluster.name, nodes_max));
  }
  cluster.nodes = nodes;
  for (const ShippedFile& preset : shipped_clusters()) cluster.shipped |= preset.json == json;
  return cluster;
}

Result<std::string> cluster_text(const std::string& name_or_path) {
  TESSERA_ASSIGN(std::string text, read_text(name_or_path));
  TESSERA_TRY(read_cluster(text, name_or_path).status());
  return text;
}

Result<Cluster> load_cluster(const std::string& name_or_path, Index nodes) {
  TESSERA_ASSIGN(const std::string text, read_text(name_or_path));
  return parse_cluster(text, name_or_path, nodes);
}

std::vector<std::string> idle_numbers(const Cluster& cluster) {
  const Link& link = cluster.intra_node;
  const Index gpus = cluster.gpus_per_node;
  std::vector<std::string> out;
  const auto add = [&](const char* idle, const char* key, Index value) {
    out.push_back(
        fmt::format("cluster {}: intra_node.{} says nothing, as {} is {} and a node has {} "
                    "GPUs",
                    cluster.name, idle, key, value, gpus));
  };
  if (link.shared_bytes_per_s > 0 && link.switch_gpus >= gpus && gpus > 1) {
    add("shared_bytes_per_s", "switch_gpus", link.switch_gpus);
  }
  if (link.socket_gpus > gpus) {
    add(link.sockets_bytes_per_s > 0 ? "sockets_bytes_per_s" : "socket_gpus", "socket_gpus",
        link.socket_gpus);
  }
  return out;
}

std::vector<std::string> cluster_presets() {
  std::vector<std::string> names;
  for (const ShippedFile& preset : shipped_clusters()) names.emplace_back(preset.name);
  return names;
}

}  // namespace tessera::sim
