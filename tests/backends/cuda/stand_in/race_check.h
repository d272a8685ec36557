// SPDX-License-Identifier: Apache-2.0
// Which accesses to memory are ordered, found from what a device was told: the order of a stream,
// waits for events, and what the host has seen.
//
// The idea: a vector clock over the streams of one device (Mattern 1989), and for every range of
// addresses who wrote it last and who has read it since. When things ran does not matter.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::test {

inline constexpr std::size_t fake_streams_max = 24;
using Clock = std::array<std::uint32_t, fake_streams_max>;

inline void join(Clock& into, const Clock& from) {
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = std::max(into[i], from[i]);
}

struct MemoryAccess {
  const void* at = nullptr;
  std::size_t bytes = 0;
  bool write = false;
};

class RaceCheck {
 public:
  /// An operation of `stream`, whose clock counts it already. Returns "" or what it races with.
  std::string check(const MemoryAccess& access, std::size_t stream, const Clock& clock,
                    const std::string& name);
  /// The range goes away. Returns "" or who may still use it, as far as `clock` knows.
  std::string forget(const void* at, std::size_t bytes, const Clock& clock);

 private:
  struct Use {
    std::size_t stream = 0;
    std::uint32_t count = 0;
    std::string name;
  };
  struct Segment {
    std::uintptr_t end = 0;
    bool written = false;
    Use writer;
    std::vector<Use> readers;  // since
  };
  using Segments = std::map<std::uintptr_t, Segment>;

  void split(std::uintptr_t at);
  void cover(std::uintptr_t begin, std::uintptr_t end);
  static std::string conflict(const Segment& segment, bool write, const Clock& clock);

  Segments segments_;
};

}  // namespace tessera::test
