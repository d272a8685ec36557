// SPDX-License-Identifier: Apache-2.0
#include "analysis/link_limits.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace tessera::analysis {
namespace {

using Json = nlohmann::json;

Json parsed(const std::string& text) {
  return Json::parse(text, nullptr, /*allow_exceptions=*/false);
}

/// Bytes/s of a link of `cluster`; 0 if it has none, or if its GPUs share something on the way.
double rate_of(const Json& cluster, const char* name) {
  const auto link = cluster.find(name);
  if (link == cluster.end() || !link->is_object()) return 0;
  for (const char* shared : {"shared_bytes_per_s", "sockets_bytes_per_s", "oversubscription"}) {
    if (link->contains(shared)) return 0;
  }
  const auto rate = link->find("bytes_per_s");
  return rate != link->end() && rate->is_number() ? rate->get<double>() : 0;
}

bool passes_rings(OpKind kind) { return is_collective(kind) && kind != OpKind::all_to_all; }

}  // namespace

LinkLimits::LinkLimits(const TraceRun& run)
    : ranks_(run.ranks), node_(std::max(1, run.ranks_per_node)) {
  const Json sources = parsed(run.sources);
  if (!sources.is_object() || !sources.contains("cluster")) return;
  if (!sources["cluster"].is_string()) return;
  const Json cluster = parsed(sources["cluster"].get<std::string>());
  if (!cluster.is_object()) return;
  inside_ = rate_of(cluster, "intra_node");
  const auto nccl = cluster.find("nccl");
  const bool one_each =
      nccl == cluster.end() || !nccl->is_object() || !nccl->contains("nics_per_node");
  between_ = one_each ? rate_of(cluster, "inter_node") : 0;
}

double LinkLimits::of(const storage::OpRow& op, const storage::CommunicatorRow& group) const {
  if (group.group_size < 2 || !is_collective(op.kind)) return 0;
  if (op.algorithm.starts_with("NVLS") || op.algorithm.starts_with("CollNet")) return 0;
  if (ranks_ <= node_) return inside_;
  if (group.group_size != ranks_ || !passes_rings(op.kind) || between_ == 0) return 0;
  // A ring leaves a node by the links of all of its GPUs, in as many channels.
  return std::min(inside_, between_ * node_);
}

}  // namespace tessera::analysis
