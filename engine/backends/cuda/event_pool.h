// SPDX-License-Identifier: Apache-2.0
// CUDA events, to be recorded again and again.
#pragma once

#include <vector>

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/status.h"

namespace tessera {

/// CUDA events that are made once and used again and again.
class EventPool {
 public:
  enum class Kind { untimed, timed };
  explicit EventPool(const CudaApi& api, Kind kind = Kind::untimed) : api_(api), kind_(kind) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool();

  /// Records an event behind all work enqueued on `stream`; the caller gives it back.
  Result<CudaEvent> record(CudaStream stream);
  void give_back(CudaEvent event) { free_.push_back(event); }

 private:
  Result<CudaEvent> take();

  const CudaApi& api_;
  const Kind kind_;
  std::vector<CudaEvent> free_;
};

}  // namespace tessera
