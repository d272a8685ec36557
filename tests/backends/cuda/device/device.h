// SPDX-License-Identifier: Apache-2.0
// A device to test kernels on: the real one through the module, or the stand-in.
#pragma once

#include <algorithm>
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

  /// Memory until `clear`, aligned to 256 bytes; the guard, 256 bytes behind it or more, is
  /// nobody's. All arrays lie in one mapping, so that a sanitizer sees no write into it.
  DeviceArray allocate(std::size_t bytes) {
    const Bytes at = next_;
    next_ = Bytes{(at.value + static_cast<std::int64_t>(bytes) + 511) / 256 * 256};
    REQUIRE(next_ <= memory_bytes);
    const DeviceArray array{memory_.at(at), bytes};
    guards_.push_back({array.at + bytes, static_cast<std::size_t>((next_ - at).value) - bytes});
    std::fill_n(staging_.base(), guards_.back().bytes, guard_byte);
    copy(guards_.back().at, staging_.base(), guards_.back().bytes);
    wait();
    return array;
  }
  void clear() {
    guards_.clear();
    next_ = Bytes{};
  }
  /// Whether nobody has written behind an array.
  bool guards_hold() {
    std::byte* end = staging_.base();
    for (const DeviceArray& guard : guards_) {
      copy(end, guard.at, guard.bytes);
      end += guard.bytes;
    }
    wait();
    return std::all_of(staging_.base(), end, [](std::byte b) { return b == guard_byte; });
  }

  DeviceArray upload(std::span<const std::byte> bytes) {
    const DeviceArray array = allocate(bytes.size());
    if (bytes.empty()) return array;
    std::copy(bytes.begin(), bytes.end(), staging_.base());
    copy(array.at, staging_.base(), bytes.size());
    wait();
    return array;
  }
  std::vector<std::byte> download(const DeviceArray& array) {
    CHECK(guards_hold());
    if (array.bytes == 0) return {};
    copy(staging_.base(), array.at, array.bytes);
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
  static constexpr std::byte guard_byte{0xA5};

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) {
    require_code(api_.memcpy_async(to, from, bytes, stream_));
  }

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
  std::vector<DeviceArray> guards_;
};

}  // namespace tessera::test
