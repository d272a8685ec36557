// SPDX-License-Identifier: Apache-2.0
// Reading and writing blocks of files, several at once.
//
// The idea: results are passed on as the system gave them. Whether a block was moved as a whole is
// the caller's question (deepspeed csrc/aio never asks it); a test puts an io of its own in between
// that answers wrongly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace tessera {

struct BlockRequest {
  bool writes = false;
  int file = -1;
  std::byte* data = nullptr;
  std::size_t size = 0;
  std::int64_t offset = 0;
  std::uint64_t tag = 0;           // of its completion
  std::span<std::byte> on_device;  // all memory of which `data` is a part, if that is a device's
};

/// Moves one block while the thread waits. Returns as a completion's result.
using MoveBlock = std::function<std::int64_t(const BlockRequest&)>;
/// With preadv and pwritev.
std::int64_t move_block(const BlockRequest& request);

/// Of a completion that belongs to no request: waiting itself failed.
inline constexpr std::uint64_t no_tag = ~std::uint64_t{0};

struct BlockCompletion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes, perhaps fewer than asked for, or -errno
};

class BlockIo {
 public:
  virtual ~BlockIo() = default;
  /// Returns at once. 0 or -errno: the request was not taken.
  virtual int start(const BlockRequest& request) = 0;
  /// The next completion, in any order. REQUIRES: something was started and has not completed.
  virtual BlockCompletion wait() = 0;
  /// Likewise, but none instead of waiting. Nothing needs to have started.
  virtual std::optional<BlockCompletion> poll() = 0;
  /// "io_uring", "threads".
  virtual const char* name() const = 0;
};

/// On `threads` threads.
std::unique_ptr<BlockIo> make_thread_io(int threads, MoveBlock move = move_block);

/// io_uring for at most `depth` requests at a time; nullptr where the build or the system has none.
std::unique_ptr<BlockIo> make_uring_io(int depth);

}  // namespace tessera
