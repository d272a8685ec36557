// SPDX-License-Identifier: Apache-2.0
// Work that computations repeat, as CUDA graphs: many launches become one.
//
// The idea: a computation that says what it repeats (Compute::repeated) enqueues the same work
// whenever it is the same computation on the same memory. The first time its body runs as usual, so
// that libraries load their code and choose algorithms; the second time the work that it enqueues
// is recorded; from then on its graph is launched and its body does not run. Any difference makes
// another key, which starts from the beginning.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/host_runtime.h"

namespace tessera {

class Graphs {
 public:
  /// All numbers that the work depends on: the first two identify the work, the others are in an
  /// order that the caller chooses.
  using Key = std::vector<std::uintptr_t>;
  explicit Graphs(const CudaApi& api) : api_(api) {}
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs();

  /// Enqueues `work` on `stream`, which is part of the key. `owner` keeps the objects that the key
  /// names alive.
  Status run(Key key, std::shared_ptr<const void> owner, CudaStream stream,
             const std::function<Status()>& work);
  /// Counts a body that ran and cannot become a graph.
  void ran_unrepeated() { ++counts_.unrepeated; }
  const GraphCounts& counts() const { return counts_; }
  /// Whether a stream is being recorded: meanwhile no other function of CUDA may be called.
  bool recording() const { return recording_; }

 private:
  struct Entry {
    std::shared_ptr<const void> owner;
    CudaGraphExec graph = nullptr;  // null: it has run once
    std::int64_t used = 0;          // the last run
  };
  Result<CudaGraphExec> record(CudaStream stream, const std::function<Status()>& work);
  void forget_old();
  bool is_known_elsewhere(std::map<Key, Entry>::iterator entry);

  const CudaApi& api_;
  std::map<Key, Entry> entries_;
  GraphCounts counts_;
  std::int64_t runs_ = 0;
  bool recording_ = false;
};

}  // namespace tessera
