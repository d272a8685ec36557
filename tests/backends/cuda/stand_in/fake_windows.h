// SPDX-License-Identifier: Apache-2.0
// Symmetric windows of NCCL: memory that all members of a communicator have made known, piece by
// piece, in one order.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace tessera::test {

/// The windows that the members of one group have registered so far.
struct FakeRegistrations {
  struct One {
    std::size_t bytes = 0;
    int come = 0;
  };
  std::map<int, One> by_number;
};

/// The windows of one member.
class FakeWindows {
 public:
  /// "" or how it differs from what the others have registered.
  std::string add(FakeRegistrations& group, const void* at, std::size_t bytes);
  bool remove(int number) { return own_.erase(number) == 1; }
  int newest() const { return newest_; }
  bool empty() const { return own_.empty(); }
  bool overlaps(const void* at, std::size_t bytes) const;
  /// "window 2 + 4096", or "no window".
  std::string place(const void* at) const;
  /// Whether NCCL finds a window by where the range begins, and then reads on behind its end.
  bool leaves(const void* at, std::size_t bytes) const;

 private:
  struct Window {
    const std::byte* at = nullptr;
    std::size_t bytes = 0;
  };
  std::map<int, Window> own_;
  int newest_ = 0;
};

}  // namespace tessera::test
