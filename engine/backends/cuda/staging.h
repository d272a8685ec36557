// SPDX-License-Identifier: Apache-2.0
// Bodies that work on numbers with the CPU: what they touch on the device is copied to the host,
// the body runs there, what it wrote is copied back.
//
// The idea: correct for every body and slow; the work that counts launches kernels instead.
#pragma once

#include <map>
#include <vector>

#include "engine/backends/cuda/cuda_api.h"
#include "tessera/op.h"

namespace tessera {

/// Pinned host memory of one size.
class PinnedMemory {
 public:
  explicit PinnedMemory(const CudaApi& api) : api_(api) {}
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  ~PinnedMemory();

  /// Instead of what was there. Fails: out_of_memory.
  Status allocate(Bytes bytes);
  /// With what was there. REQUIRES: nobody uses that place. Fails: out_of_memory.
  Status grow(Bytes bytes);
  /// Leaves the memory to the end of the process: somebody may still use it.
  void abandon() { base_ = nullptr; }
  std::byte* base() const { return base_; }
  Bytes bytes() const { return bytes_; }

 private:
  const CudaApi& api_;
  std::byte* base_ = nullptr;
  Bytes bytes_{};
};

/// The parts of device memory that one body touches, and their copies on the host.
class StagedBytes {
 public:
  /// REQUIRES: before `layout`.
  void touch(std::span<std::byte> device);
  /// Joins what overlaps. Returns the bytes of all copies together.
  Bytes layout();
  Status copy_in(const CudaApi& api, std::byte* host, CudaStream stream);
  /// The copy of a part that was touched. REQUIRES: after `copy_in`.
  std::span<std::byte> copy_of(std::span<std::byte> device) const;
  Status copy_out(const CudaApi& api, std::span<std::byte> device, CudaStream stream) const;

 private:
  struct Part {
    std::byte* end = nullptr;
    std::size_t offset = 0;
  };
  std::map<std::byte*, Part> parts_;  // by begin
  std::byte* host_ = nullptr;
};

}  // namespace tessera
