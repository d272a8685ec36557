// SPDX-License-Identifier: Apache-2.0
#include "exchange/formats/execution_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tessera::exchange {
namespace {

constexpr Time time_of_order = 1000;  // ns that a node without times takes

class NodeTimes {
 public:
  explicit NodeTimes(std::vector<ExecutionNode>& nodes) : nodes_(nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) place_.try_emplace(nodes[i].id, i);
  }

  bool known() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const auto& n) { return n.begin > 0; });
  }

  /// Nested nodes in the order of their begins: each begins a microsecond after the one before, and
  /// lasts as long as what is inside of it.
  void by_order() {
    std::vector<std::size_t> order(nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return nodes_[a].order < nodes_[b].order;
    });
    Time time = 0;
    for (const std::size_t i : order) {
      nodes_[i].begin = time;
      nodes_[i].duration = time_of_order;
      time += time_of_order;
    }
    // What is inside begins later, so that those who contain it come after it here.
    for (auto i = order.rbegin(); i != order.rend(); ++i) {
      const ExecutionNode& inner = nodes_[*i];
      const auto outer = place_.find(inner.parent);
      if (outer == place_.end() || outer->second == *i) continue;
      ExecutionNode& node = nodes_[outer->second];
      if (node.begin > inner.begin) continue;
      node.duration = std::max(node.duration, inner.begin + inner.duration - node.begin);
    }
  }

  /// Nodes of a graph, which come after what they wait for and, in a lane, one after the other.
  void by_dependencies(ImportedRun& run) {
    std::int64_t unknown = 0;
    std::vector<Time> end(nodes_.size(), 0);
    std::map<std::int64_t, Time> free;  // by lane
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      ExecutionNode& node = nodes_[i];
      Time& lane = free[node.collective ? -1 : node.host ? -2 : node.thread];
      node.begin = lane;
      for (const std::int64_t id : node.after) {
        const auto found = place_.find(id);
        const bool before = found != place_.end() && found->second < i;
        if (before) node.begin = std::max(node.begin, end[found->second]);
        unknown += before ? 0 : 1;
      }
      node.duration = std::clamp<Time>(node.duration, time_of_order, Time{1} << 40);
      lane = end[i] = std::min(node.begin + node.duration, Time{1} << 60);
    }
    run.warn_count(
        "{} dependencies are on nodes that come later or are not in the file: nothing waits for "
        "them",
        unknown);
  }

 private:
  std::vector<ExecutionNode>& nodes_;
  std::unordered_map<std::int64_t, std::size_t> place_;
};

class NodeLanes {
 public:
  NodeLanes(const std::vector<ExecutionNode>& nodes, ImportedRank& rank, ImportedRun& run)
      : rank_(rank), run_(run) {
    std::map<std::int64_t, std::int64_t> nodes_of;
    for (const ExecutionNode& node : nodes) {
      device_ = device_ || (!node.host && !node.collective);
      if (node.host) ++nodes_of[node.thread];
    }
    std::int64_t most = 0;
    for (const auto& [thread, count] : nodes_of) {
      if (count > most) main_ = thread;
      most = std::max(most, count);
    }
  }

  std::int32_t lane_of(const ExecutionNode& node) {
    if (node.collective) return communication(node);
    if (!node.host) {
      return node.kind == OpKind::copy ? rank_.lane("copy", StreamRole::copy, run_)
                                       : rank_.lane("compute", StreamRole::compute, run_);
    }
    // Where there is no device the host computes.
    const StreamRole role = device_ ? StreamRole::host : StreamRole::compute;
    if (node.thread == main_) return rank_.lane("main thread", role, run_);
    constexpr std::size_t threads_max = 256;
    auto found = others_.find(node.thread);
    if (found == others_.end() && others_.size() < threads_max) {
      const std::size_t nth = others_.size() + 1;
      found = others_
                  .emplace(node.thread, rank_.lane(nth == 1 ? std::string("other thread")
                                                            : fmt::format("other thread {}", nth),
                                                   role, run_))
                  .first;
    }
    return found == others_.end() ? others_.begin()->second : found->second;
  }

 private:
  std::int32_t communication(const ExecutionNode& node) {
    const std::string& title = run_.text(node.description != 0 ? node.description : node.group);
    return rank_.lane(title.empty() ? "communication" : "communication " + title,
                      StreamRole::communication, run_);
  }

  ImportedRank& rank_;
  ImportedRun& run_;
  bool device_ = false;
  std::int64_t main_ = 0;
  std::map<std::int64_t, std::int32_t> others_;
};

}  // namespace

void add_nodes(std::vector<ExecutionNode> nodes, ImportedRank& rank, ImportedRun& run) {
  NodeTimes times(nodes);
  if (!times.known()) {
    run.warn(
        "the execution trace has no times: it is shown in its order, a microsecond for each "
        "operation that has no duration");
    const bool ordered = std::any_of(nodes.begin(), nodes.end(),
                                     [](const ExecutionNode& node) { return node.order > 0; });
    ordered ? times.by_order() : times.by_dependencies(run);
  }
  NodeLanes lanes(nodes, rank, run);
  for (const ExecutionNode& node : nodes) {
    if (node.duration <= 0) {
      run.lost("nodes without a duration");
      continue;
    }
    ImportedSpan span{.begin = node.begin,
                      .end = node.begin + node.duration,
                      .name = node.name,
                      .lane = lanes.lane_of(node),
                      .kind = node.kind};
    if (node.collective && is_collective(node.kind)) {
      span.collective = static_cast<std::int32_t>(rank.collectives.size());
      rank.collectives.push_back(
          {.group = run.group({.name = node.group != 0 ? run.text(node.group) : "default",
                               .description = run.text(node.description),
                               .size = std::clamp(node.group_size, 0, 1 << 20)}),
           .bytes = node.bytes,
           .dtype = node.dtype,
           .dtype_known = node.dtype_known});
    } else {
      span.bytes = node.bytes;
    }
    rank.spans.push_back(span);
  }
}

}  // namespace tessera::exchange
