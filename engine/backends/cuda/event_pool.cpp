// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/event_pool.h"

#include "engine/backends/cuda/calls.h"

namespace tessera {

EventPool::~EventPool() {
  for (CudaEvent event : free_) api_.event_destroy(event);
}

Result<CudaEvent> EventPool::take() {
  if (!free_.empty()) {
    const CudaEvent event = free_.back();
    free_.pop_back();
    return event;
  }
  CudaEvent event = nullptr;
  const auto create = kind_ == Kind::timed ? api_.event_create_timed : api_.event_create;
  TESSERA_TRY(cuda_status(api_, create(&event), "cudaEventCreate"));
  return event;
}

Result<CudaEvent> EventPool::record(CudaStream stream) {
  TESSERA_ASSIGN(const CudaEvent event, take());
  const int code = api_.event_record(event, stream);
  if (code == cuda_success) return event;
  give_back(event);
  return cuda_status(api_, code, "cudaEventRecord");
}

}  // namespace tessera
