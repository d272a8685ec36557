// SPDX-License-Identifier: Apache-2.0
#include "sim/collectives/choice.h"

#include <algorithm>
#include <array>

namespace tessera::sim {
namespace {

// LL128 relies on stores of 128 bytes that arrive whole: over NVLink, and on networks that keep it.
bool works(const Task& task, Protocol protocol) {
  if (protocol != Protocol::ll128) return true;
  if (task.constants.early_rings && task.facts.compute_capability >= 100) return false;
  const bool inside = task.facts.nvlink || task.chain == 1;
  return inside && task.facts.compute_capability >= 70 &&
         (task.one_node() || task.facts.ll128_between);
}

bool ruled_out(const Task& task, Protocol protocol, std::int64_t bytes) {
  const Bytes most = task.facts.all_reduce_ll_most;
  return most > Bytes{} && bytes > most.value && !task.one_node() &&
         task.kind == OpKind::all_reduce && protocol != Protocol::simple;
}

// Fewer channels, as long as their threads would have too little to do (enqueue.cc).
int channels_of(const Task& task, const Choice& choice, std::int64_t bytes) {
  if (choice.algorithm == Algorithm::nvls || choice.algorithm == Algorithm::nvls_tree) {
    return task.facts.compute_capability >= 100 ? 32 : 16;
  }
  const bool ring = choice.algorithm == Algorithm::ring;
  const bool thin = ring && task.plan.ring.inside * task.plan.ring.count <= 12;
  double threads = choice.protocol == Protocol::ll128 ? 640 : 512;
  if (choice.protocol == Protocol::simple && thin) threads = 256;
  double per_thread = choice.protocol == Protocol::simple ? 64 : 8;
  if (choice.protocol == Protocol::ll && ring) per_thread *= task.ranks;
  const auto useful = static_cast<double>(bytes) / (threads * per_thread);
  return static_cast<int>(std::clamp(useful, 1.0, static_cast<double>(task.plan.blocks)));
}

}  // namespace

Choice choose(const Task& task, std::int64_t bytes) {
  Choice best;
  double best_time = 0;
  for (const AlgorithmRow* row : algorithm_table()) {
    for (int p = 0; p < protocols; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      double rate = row->rate(task, protocol);
      if (!(rate > 0) || !works(task, protocol)) continue;
      if (ruled_out(task, protocol, bytes)) continue;
      double latency = row->latency(task, protocol);
      if (row->rate_at != nullptr) rate *= row->rate_at(task, protocol, bytes);
      if (row->latency_at != nullptr) latency *= row->latency_at(task, protocol, bytes);
      const double transfer = static_cast<double>(bytes) / (1000 * rate);
      if (best_time > 0 && latency + transfer >= best_time) continue;
      best_time = latency + transfer;
      best = {row->algorithm, protocol, 1, {latency, transfer}};
    }
  }
  best.channels = channels_of(task, best, bytes);
  return best;
}

}  // namespace tessera::sim
