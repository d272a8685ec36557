// SPDX-License-Identifier: Apache-2.0
// Runs bodies that compute with the CPU: the device memory that they touch is copied to the host,
// the body runs there, and the memory that it wrote is copied back.
//
// The idea: this is correct for every body, and slow; bodies that matter for speed launch kernels
// instead.
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

  /// Replaces the memory; its contents are lost. Fails: out_of_memory.
  Status allocate(Bytes bytes);
  /// Moves the contents to more memory. REQUIRES: nothing uses the old memory. Fails:
  /// out_of_memory.
  Status grow(Bytes bytes);
  /// Leaks the memory until the process ends: the device may still use it.
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
  /// Adds a part that the body touches. REQUIRES: `layout` was not called yet.
  void touch(std::span<std::byte> device);
  /// Joins parts that overlap. Returns the bytes of all copies together.
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
