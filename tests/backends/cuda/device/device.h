// SPDX-License-Identifier: Apache-2.0
// A device to test kernels on: the real one through the module, or the stand-in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/cuda/cuda_module.h"
#include "engine/backends/cuda/device_memory.h"
#include "engine/backends/cuda/staging.h"
#include "tests/require_ok.h"

namespace tessera::test {

/// The module under test, which the program that links this defines.
const CudaModule& device_module();

/// A piece of device memory.
struct DeviceArray {
  std::byte* at = nullptr;
  std::size_t bytes = 0;
};

/// A stream and memory, for as long as the program runs. Every call waits for what was queued.
class Device {
 public:
  static constexpr Bytes memory_bytes{64 << 20};
  static constexpr Bytes staging_bytes{16 << 20};

  static Device& only() {
    static Device device;
    return device;
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() {
    api_.event_destroy(event_);
    api_.stream_destroy(stream_);
  }

  const KernelApi& kernels() const { return device_module().kernels; }
  CudaStream stream() const { return stream_; }

  /// Memory until `clear`, aligned to 256 bytes; 256 bytes behind it belong to nobody.
  DeviceArray allocate(std::size_t bytes) {
    const Bytes at = next_;
    next_ = Bytes{(at.value + static_cast<std::int64_t>(bytes) + 511) / 256 * 256};
    REQUIRE(next_ <= memory_bytes);
    return {memory_.at(at), bytes};
  }
  void clear() { next_ = Bytes{}; }

  DeviceArray upload(std::span<const std::byte> bytes) {
    const DeviceArray array = allocate(bytes.size());
    if (bytes.empty()) return array;
    std::copy(bytes.begin(), bytes.end(), staging_.base());
    require_code(api_.memcpy_async(array.at, staging_.base(), bytes.size(), stream_));
    wait();
    return array;
  }
  std::vector<std::byte> download(const DeviceArray& array) {
    if (array.bytes == 0) return {};
    require_code(api_.memcpy_async(staging_.base(), array.at, array.bytes, stream_));
    wait();
    return {staging_.base(), staging_.base() + array.bytes};
  }

  void wait() {
    require_code(api_.event_record(event_, stream_));
    int code = cuda_not_ready;
    while (code == cuda_not_ready) code = api_.event_query(event_);
    require_code(code);
  }
  void require_code(int code) const {
    INFO(api_.get_error_string(code));
    REQUIRE(code == cuda_success);
  }

 private:
  Device() : api_(device_module().cuda), memory_(api_), staging_(api_) {
    require_code(api_.set_device(0));
    require_ok(memory_.reserve(0, memory_bytes));
    require_ok(memory_.grow(memory_bytes));
    require_ok(staging_.allocate(staging_bytes));
    require_code(api_.stream_create(&stream_, 0));
    require_code(api_.event_create(&event_));
  }

  const CudaApi& api_;
  DeviceMemory memory_;
  PinnedMemory staging_;
  CudaStream stream_ = nullptr;
  CudaEvent event_ = nullptr;
  Bytes next_{};
};

}  // namespace tessera::test
