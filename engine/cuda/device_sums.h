// SPDX-License-Identifier: Apache-2.0
// Checksums of blocks of device memory: computed there, and read by the host when they are done.
//
// The idea: memory for them is pinned before anything runs, as pinning can stop the device; so
// there is one place, and whoever wants checksums takes turns.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cuda/kernel_api.h"
#include "engine/cuda/lane.h"
#include "engine/cuda/staging.h"

namespace tessera {

class DeviceSums {
 public:
  /// All of them must outlive it.
  DeviceSums(const CudaApi& api, const KernelApi& kernels, EventPool& events)
      : api_(api), kernels_(kernels), events_(events), sums_(api) {}
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;
  ~DeviceSums();

  /// Whether so many would not find room.
  bool lacks(std::size_t blocks) const {
    return static_cast<std::size_t>(sums_.bytes().value) < blocks * sizeof(std::uint64_t);
  }
  /// REQUIRES: not busy. Fails: out_of_memory.
  Status make_room(std::size_t blocks);

  bool busy() const { return done_ != nullptr; }
  /// Of each `block` bytes of `data`. REQUIRES: not busy, there is room, and the host has seen
  /// whoever wrote `data` end. Fails: communication_error.
  Status start(std::span<const std::byte> data, std::size_t block);
  /// Whether they are there, which ends being busy. Does not wait.
  Result<bool> ready();
  Result<bool> idle() { return busy() ? ready() : Result<bool>(true); }
  /// After that, until the next `start`.
  std::span<const std::uint64_t> sums() const {
    return {reinterpret_cast<const std::uint64_t*>(sums_.base()), count_};
  }

  /// Leaves its memory to the end of the process: the device may still write there.
  void abandon() { sums_.abandon(); }

 private:
  const CudaApi& api_;
  const KernelApi& kernels_;
  EventPool& events_;
  PinnedMemory sums_;
  std::size_t count_ = 0;
  CudaStream stream_ = nullptr;
  CudaEvent done_ = nullptr;
};

}  // namespace tessera
