// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/read_network.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>

#include "engine/text/nearest_word.h"
#include "sim/cluster/object_reader.h"
#include "sim/collectives/constants.h"
#include "sim/network/fabrics.h"

namespace tessera::sim {
namespace {

// Beyond these it must be a mistake of units.
constexpr double root_ns_max = 1e7;
constexpr double share_max = 4;

std::optional<OpKind> collective_named(const std::string& name) {
  for (int k = 0; k <= static_cast<int>(op_kind_last); ++k) {
    const auto kind = static_cast<OpKind>(k);
    if (is_collective(kind) && name_of(kind) == name) return kind;
  }
  return std::nullopt;
}

// What has no effect without another key.
void check_pairs(ObjectReader& reader) {
  const auto needs = [&](const char* key, const char* other) {
    if (!reader.has(key) || reader.has(other)) return;
    reader.fail(key, fmt::format("does nothing without {}: give both", other));
  };
  needs("oversubscription", "nodes_per_pod");
  needs("switch_gpus", "shared_bytes_per_s");
  needs("sockets_bytes_per_s", "shared_bytes_per_s");
  needs("sockets_bytes_per_s", "socket_gpus");
  needs("socket_gpus", "shared_bytes_per_s");
}

// Links are of three kinds, and a number that only others have would say nothing.
enum class Place { node, network, host };

Place place_of(std::string_view where) {
  if (where.ends_with("inter_node.")) return Place::network;
  return where.ends_with("intra_node.") ? Place::node : Place::host;
}

void check_place(ObjectReader& reader, Place place) {
  struct Rule {
    const char* key;
    bool node, network;  // where it belongs
    const char* what;
  };
  for (const auto& [key, node, network, what] :
       {Rule{"tree_share", false, true, "is of trees between nodes: it belongs to inter_node"},
        {"tree_ll_share", false, true, "is of trees between nodes: it belongs to inter_node"},
        {"tree_ns", false, true, "is of trees between nodes: it belongs to inter_node"},
        {"fabric", false, true, "is a network: it belongs to inter_node"},
        {"nodes_per_pod", false, true, "is of a network: it belongs to inter_node"},
        {"oversubscription", false, true, "is of a network: it belongs to inter_node"},
        {"launch_ns", false, true, "is of collectives between nodes: it belongs to inter_node"},
        {"end_steps", true, false, "is of rings within a node: it belongs to intra_node"},
        {"switch_gpus", true, false, "is of a path within a node: it belongs to intra_node"},
        {"socket_gpus", true, false, "is of a path within a node: it belongs to intra_node"},
        {"sockets_bytes_per_s", true, false,
         "is of a path within a node: it belongs to intra_node"},
        {"shared_bytes_per_s", true, true, "is of collectives: host_memory has links_bytes_per_s"},
        {"nccl_share", true, true, "is of collectives, which do not pass the host's link"},
        {"ll_share", true, true, "is of collectives, which do not pass the host's link"},
        {"sqrt_ns", true, true, "is of collectives, which do not pass the host's link"}}) {
    const bool there = place == Place::node ? node : place == Place::network && network;
    if (!there && reader.has(key)) reader.fail(key, what);
  }
}

Link read_fabric(ObjectReader& reader, const Link& otherwise) {
  const std::string name = reader.text("fabric");
  if (const Link* fabric = find_fabric(name)) return *fabric;
  const std::string_view meant = nearest_word(name, fabric_names());
  reader.fail("fabric", meant.empty()
                            ? fmt::format("must be one of {}", fmt::join(fabric_names(), ", "))
                            : fmt::format("is unknown: did you mean '{}'?", meant));
  return otherwise;
}

}  // namespace

Link read_link(const nlohmann::json& json, const std::string& where, Status& status, Link link) {
  ObjectReader reader(
      json, where,
      {"bytes_per_s", "efficiency", "latency_ns", "nccl_share", "launch_ns", "sqrt_ns", "end_steps",
       "ll_share", "tree_ll_share", "tree_share", "tree_ns", "shared_bytes_per_s", "switch_gpus",
       "sockets_bytes_per_s", "socket_gpus", "fabric", "oversubscription", "nodes_per_pod"},
      status);
  check_place(reader, place_of(where));
  const bool named = reader.has("fabric");
  if (named) link = read_fabric(reader, link);
  link.bytes_per_s = reader.rate("bytes_per_s");
  if (!named || reader.has("efficiency")) link.efficiency = reader.share("efficiency");
  if (!named || reader.has("latency_ns")) link.latency_ns = reader.nanoseconds("latency_ns");
  if (reader.has("nccl_share")) link.nccl_share = reader.share("nccl_share");
  if (reader.has("launch_ns")) link.launch_ns = reader.nanoseconds("launch_ns");
  if (reader.has("sqrt_ns")) link.sqrt_ns = reader.number("sqrt_ns", 0, root_ns_max);
  if (reader.has("end_steps")) link.end_steps = reader.number("end_steps", 0, share_max);
  if (reader.has("ll_share")) link.ll_share = reader.number("ll_share", 0.01, share_max);
  if (reader.has("tree_ll_share")) {
    link.tree_ll_share = reader.number("tree_ll_share", 0.01, share_max);
  }
  if (reader.has("tree_share")) link.tree_share = reader.number("tree_share", 0.01, share_max);
  if (reader.has("tree_ns")) link.tree_ns = reader.nanoseconds("tree_ns");
  if (reader.has("shared_bytes_per_s")) link.shared_bytes_per_s = reader.rate("shared_bytes_per_s");
  if (reader.has("switch_gpus")) {
    link.switch_gpus = static_cast<Index>(reader.integer("switch_gpus", 1, 4096));
  }
  if (reader.has("sockets_bytes_per_s")) {
    link.sockets_bytes_per_s = reader.rate("sockets_bytes_per_s");
  }
  if (reader.has("socket_gpus")) {
    link.socket_gpus = static_cast<Index>(reader.integer("socket_gpus", 1, 4096));
  }
  if (reader.has("oversubscription")) {
    link.oversubscription = reader.number("oversubscription", 1, 1000);
  }
  if (reader.has("nodes_per_pod")) {
    link.nodes_per_pod = static_cast<Index>(reader.integer("nodes_per_pod", 1, 1e6));
  }
  check_pairs(reader);
  return link;
}

Nvls read_nvls(const nlohmann::json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where, {"share", "sqrt_ns"}, status);
  Nvls nvls;
  nvls.share = reader.number("share", 0.01, share_max);
  if (reader.has("sqrt_ns")) nvls.sqrt_ns = reader.number("sqrt_ns", 0, root_ns_max);
  return nvls;
}

std::vector<MeasuredFactors> read_measured(const nlohmann::json& json, const std::string& where,
                                           Status& status) {
  std::vector<MeasuredFactors> out;
  const auto complain = [&](const std::string& what) {
    if (status.ok()) status = Status(Code::invalid_argument, fmt::format("{} {}", where, what));
  };
  if (!json.is_array()) complain("must be an array of objects");
  for (std::size_t k = 0; k < json.size() && json.is_array(); ++k) {
    const std::string place = fmt::format("{}[{}].", where, k);
    ObjectReader reader(json[k], place, {"operation", "ranks", "nodes", "bytes", "factors"},
                        status);
    MeasuredFactors found;
    found.ranks = static_cast<Index>(reader.integer("ranks", 2, 1e7));
    found.nodes = static_cast<Index>(reader.integer("nodes", 1, 1e6));
    const std::string operation = reader.text("operation");
    if (!status.ok()) return out;
    const auto kind = collective_named(operation);
    if (!kind) complain(fmt::format("has the unknown operation '{}'", operation));
    const nlohmann::json& bytes = reader.object("bytes");
    const nlohmann::json& factors = reader.object("factors");
    if (!bytes.is_array() || bytes.empty() || bytes.size() != factors.size()) {
      complain("needs as many bytes as factors, in arrays");
    }
    for (std::size_t i = 0; i < bytes.size() && status.ok(); ++i) {
      const bool good = bytes[i].is_number_integer() && factors[i].is_number() &&
                        factors[i].get<double>() > 0 &&
                        (i == 0 || bytes[i].get<std::int64_t>() > found.bytes.back().value);
      if (!good) {
        complain("must have ascending bytes and factors above 0");
        break;
      }
      found.bytes.push_back(Bytes{bytes[i].get<std::int64_t>()});
      found.factors.push_back(factors[i].get<double>());
    }
    if (!status.ok()) return out;
    found.kind = *kind;
    out.push_back(std::move(found));
  }
  return out;
}

NcclFacts read_nccl(const nlohmann::json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where,
                      {"version", "compute_capability", "cpu", "nics_per_node", "nvlink", "sharp",
                       "nvls_between", "ll128_between", "all_reduce_ll_bytes_max"},
                      status);
  NcclFacts facts;
  if (reader.has("version")) facts.version = reader.text("version");
  if (!knows_version(facts.version)) {
    reader.fail("version", fmt::format("must be one of {}, whose constants are known",
                                       fmt::join(nccl_versions, ", ")));
  }
  facts.compute_capability = static_cast<int>(reader.integer("compute_capability", 60, 200));
  if (!knows_gpu(facts)) {
    reader.fail("version",
                fmt::format("{} is older than GPUs of compute_capability {}: give 2.27 or newer",
                            facts.version, facts.compute_capability));
  }
  if (reader.has("cpu")) {
    const std::string cpu = reader.text("cpu");
    facts.cpu = cpu == "amd"   ? NcclFacts::Cpu::amd
                : cpu == "arm" ? NcclFacts::Cpu::arm
                               : NcclFacts::Cpu::intel;
    if (cpu != "amd" && cpu != "arm" && cpu != "intel") {
      reader.fail("cpu", "must be intel, amd or arm");
    }
  }
  if (reader.has("nics_per_node")) {
    facts.nics_per_node = static_cast<Index>(reader.integer("nics_per_node", 1, 1024));
  }
  if (reader.has("nvlink")) facts.nvlink = reader.flag("nvlink");
  if (reader.has("sharp")) facts.sharp = reader.flag("sharp");
  if (reader.has("nvls_between")) facts.nvls_between = reader.flag("nvls_between");
  if (reader.has("ll128_between")) facts.ll128_between = reader.flag("ll128_between");
  if (reader.has("all_reduce_ll_bytes_max")) {
    facts.all_reduce_ll_most = Bytes{reader.integer("all_reduce_ll_bytes_max", 1, 1e15)};
  }
  return facts;
}

}  // namespace tessera::sim
