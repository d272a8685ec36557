// SPDX-License-Identifier: Apache-2.0
// Device memory behind the offsets of an EventOrderedAllocator.
//
// The idea: a range of addresses as large as the device is reserved once, and memory is mapped to
// its end as the allocator grows. So the allocator's figure is the memory in use, no buffer ever
// moves, and offsets are the same on all ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

class DeviceMemory {
 public:
  explicit DeviceMemory(const CudaApi& api) : api_(api) {}
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  /// REQUIRES: nothing on the device uses it any more, or `abandon` was called.
  ~DeviceMemory();

  Status reserve(int device, Bytes bytes);
  /// Maps memory until at least `bytes` from the start are mapped. Fails: out_of_memory;
  /// communication_error (CUDA failed). REQUIRES: the device has nothing to do, or nobody minds
  /// that the call may wait for that.
  Status grow(Bytes bytes);
  /// Leaks the memory until the process ends: the device or another rank may still use it.
  void abandon() { segments_.clear(), base_ = nullptr; }

  std::byte* at(Bytes offset) const { return base_ + offset.value; }
  Bytes mapped() const { return mapped_; }

 private:
  struct Segment {
    Bytes offset, bytes;
    CudaMemory memory = 0;
  };
  Status map(const Segment& segment);

  const CudaApi& api_;
  int device_ = 0;
  std::byte* base_ = nullptr;
  Bytes reserved_{};
  Bytes granularity_{};
  Bytes mapped_{};
  std::vector<Segment> segments_;
};

}  // namespace tessera
