// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/graphs.h"

#include <algorithm>

#include "engine/backends/cuda/calls.h"

namespace tessera {
namespace {

constexpr std::size_t entries_max = 4096;  // a graph takes memory of host and device

}  // namespace

Graphs::~Graphs() {
  for (const auto& [key, entry] : entries_) {
    if (entry.graph != nullptr) api_.graph_exec_destroy(entry.graph);
  }
}

Status Graphs::run(Key key, std::shared_ptr<const void> owner, CudaStream stream,
                   const std::function<Status()>& work) {
  const auto [found, is_new] = entries_.try_emplace(std::move(key));
  Entry& entry = found->second;
  entry.used = ++runs_;
  if (is_new) {
    ++(is_known_elsewhere(found) ? counts_.moved : counts_.first);
    entry.owner = std::move(owner);
    forget_old();
    return work();
  }
  ++counts_.launched;
  if (entry.graph == nullptr) {
    TESSERA_ASSIGN(entry.graph, record(stream, work));
  }
  return cuda_status(api_, api_.graph_launch(entry.graph, stream), "cudaGraphLaunch");
}

// Whether the same work is known with other memory. Keys with equal beginnings are neighbours in
// the map, so only two need to be compared.
bool Graphs::is_known_elsewhere(std::map<Key, Entry>::iterator entry) {
  const auto same_work = [&](std::map<Key, Entry>::iterator other) {
    return std::equal(other->first.begin(), other->first.begin() + 2, entry->first.begin());
  };
  if (entry != entries_.begin() && same_work(std::prev(entry))) return true;
  const auto next = std::next(entry);
  return next != entries_.end() && same_work(next);
}

Result<CudaGraphExec> Graphs::record(CudaStream stream, const std::function<Status()>& work) {
  TESSERA_TRY(cuda_status(api_, api_.stream_begin_capture(stream), "cudaStreamBeginCapture"));
  recording_ = true;
  const Status outcome = work();
  recording_ = false;
  // A capture must be ended even if the work failed, or the stream would stay in capture mode.
  CudaGraph graph = nullptr;
  const int ended = api_.stream_end_capture(stream, &graph);
  Status recorded = outcome.ok() ? cuda_status(api_, ended, "cudaStreamEndCapture") : outcome;
  CudaGraphExec made = nullptr;
  if (recorded.ok()) {
    recorded = cuda_status(api_, api_.graph_instantiate(&made, graph), "cudaGraphInstantiate");
  }
  if (graph != nullptr) api_.graph_destroy(graph);
  TESSERA_TRY(recorded);
  return made;
}

// Forgets the older half at once, so that work that never repeats costs little. CUDA lets a graph
// that still runs end before it destroys it.
void Graphs::forget_old() {
  if (entries_.size() <= entries_max) return;
  const std::int64_t oldest = runs_ - static_cast<std::int64_t>(entries_max / 2);
  std::erase_if(entries_, [&](const auto& entry) {
    const bool old = entry.second.used <= oldest;
    if (old && entry.second.graph != nullptr) api_.graph_exec_destroy(entry.second.graph);
    return old;
  });
}

}  // namespace tessera
