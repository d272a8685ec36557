// SPDX-License-Identifier: Apache-2.0
// Memory of fake devices: address ranges into which pieces are mapped, up to a limit of bytes per
// device, and pinned host memory. What is new or gone is full of poison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tessera::test {

inline constexpr std::size_t fake_page_bytes = 2 << 20;
inline constexpr int fake_poison = 0xFF;  // a NaN as float32, bfloat16 and float16

class FakeMemory {
 public:
  FakeMemory(int devices, std::size_t device_bytes)
      : free_(static_cast<std::size_t>(devices), device_bytes), device_bytes_(device_bytes) {}
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;
  ~FakeMemory();

  /// Somebody else has so much of a device.
  void take(int device, std::size_t bytes) { free_[static_cast<std::size_t>(device)] -= bytes; }
  // Each returns whether it could be done.
  bool reserve(void** base, std::size_t bytes);
  bool unreserve(void* base);
  bool create(std::uint64_t* handle, std::size_t bytes, int device);
  bool release(std::uint64_t handle);
  bool map(void* at, std::size_t bytes, std::uint64_t handle);
  bool give_access(void* at, std::size_t bytes, int device);
  bool unmap(void* at, std::size_t bytes);
  bool pin(void** base, std::size_t bytes);
  /// The bytes that were pinned there, or 0.
  std::size_t unpin(void* base);

  std::size_t free_bytes(int device) const { return free_[static_cast<std::size_t>(device)]; }
  std::size_t device_bytes() const { return device_bytes_; }
  /// Whether operations of `device` may touch the range.
  bool accessible(const void* at, std::size_t bytes, int device) const;
  /// Whether the range was mapped by one call.
  bool is_one_piece(const void* at, std::size_t bytes) const;
  /// Reservations, mappings, pieces and pinned ranges that exist.
  std::size_t live() const;

 private:
  struct Mapping {
    std::size_t bytes = 0;
    std::uint64_t handle = 0;
    int device = -1;  // who has access
  };
  struct Piece {
    std::size_t bytes = 0;
    int device = 0;
  };

  std::vector<std::size_t> free_;  // by device
  std::size_t device_bytes_;
  std::map<std::uintptr_t, std::size_t> reserved_;
  std::map<std::uintptr_t, Mapping> mapped_;
  std::map<std::uint64_t, Piece> pieces_;
  std::map<std::uintptr_t, std::vector<std::byte>> pinned_;
  std::uint64_t next_handle_ = 1;
};

}  // namespace tessera::test
