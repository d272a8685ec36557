// SPDX-License-Identifier: Apache-2.0
// Work that computations repeat, as CUDA graphs: many launches become one.
//
// The idea: a computation that says what it repeats (Compute::repeated) hands the same work to its
// stream whenever it is the same computation on the same memory. The first time its body runs as
// ever, so that libraries have loaded and chosen what they need; the second time what it hands over
// is recorded; from then on its graph is launched and its body does not run. Whatever differs is
// another key, which begins anew.
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
  /// All that the work depends on: first two numbers that say which work it is, then the rest in an
  /// order of the caller's.
  using Key = std::vector<std::uintptr_t>;
  explicit Graphs(const CudaApi& api) : api_(api) {}
  Graphs(const Graphs&) = delete;
  Graphs& operator=(const Graphs&) = delete;
  ~Graphs();

  /// Hands `work` to `stream`, which is part of the key. `owner`: keeps what the key names alive.
  Status run(Key key, std::shared_ptr<const void> owner, CudaStream stream,
             const std::function<Status()>& work);
  /// The body of some work ran that cannot be a graph.
  void ran_unrepeated() { ++counts_.unrepeated; }
  const GraphCounts& counts() const { return counts_; }
  /// A stream is being recorded: CUDA must not be asked anything else.
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
