// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/fake_windows.h"

#include <fmt/format.h>

namespace tessera::test {

std::string FakeWindows::add(FakeRegistrations& group, const void* at, std::size_t bytes) {
  own_[++newest_] = {static_cast<const std::byte*>(at), bytes};
  auto& one = group.by_number[newest_];
  if (one.come++ == 0) one.bytes = bytes;
  if (one.bytes == bytes) return {};
  return fmt::format("window {} has {} bytes here and {} elsewhere", newest_, bytes, one.bytes);
}

bool FakeWindows::overlaps(const void* at, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(at);
  for (const auto& [number, window] : own_) {
    if (begin < window.at + window.bytes && window.at < begin + bytes) return true;
  }
  return false;
}

bool FakeWindows::leaves(const void* at, std::size_t bytes) const {
  const auto* const begin = static_cast<const std::byte*>(at);
  for (const auto& [number, window] : own_) {
    const std::byte* const end = window.at + window.bytes;
    if (begin >= window.at && begin < end && begin + bytes > end) return true;
  }
  return false;
}

std::string FakeWindows::place(const void* at) const {
  const auto* const byte = static_cast<const std::byte*>(at);
  for (const auto& [number, window] : own_) {
    if (byte >= window.at && byte < window.at + window.bytes) {
      return fmt::format("window {} + {}", number, byte - window.at);
    }
  }
  return "no window";
}

}  // namespace tessera::test
