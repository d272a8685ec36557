// SPDX-License-Identifier: Apache-2.0
// Reading and writing blocks of files, several at once.
//
// The idea: results are passed on as the system gave them. Whether a block was moved as a whole is
// for the caller to check (deepspeed csrc/aio never does); a test puts a BlockIo of its own in
// between that returns wrong results.
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
  std::uint64_t tag = 0;           // identifies its completion
  std::span<std::byte> on_device;  // the device allocation around `data`; empty: host memory
};

/// Moves one block while the calling thread waits. Returns BlockCompletion::result.
using MoveBlock = std::function<std::int64_t(const BlockRequest&)>;
/// Moves one block by preadv or pwritev.
std::int64_t move_block(const BlockRequest& request);

/// The tag of a completion that belongs to no request: waiting itself failed with its `result`.
inline constexpr std::uint64_t no_tag = ~std::uint64_t{0};

struct BlockCompletion {
  std::uint64_t tag = 0;
  std::int64_t result = 0;  // bytes moved, perhaps fewer than requested, or -errno
};

class BlockIo {
 public:
  virtual ~BlockIo() = default;
  /// Queues the request and returns at once: 0, or -errno if it was not accepted.
  virtual int start(const BlockRequest& request) = 0;
  /// Waits for the next completion; they come in any order. REQUIRES: a request is under way.
  virtual BlockCompletion wait() = 0;
  /// The next completion if there is one now. Unlike `wait` it needs no request under way.
  virtual std::optional<BlockCompletion> poll() = 0;
  /// "io_uring", "threads".
  virtual const char* name() const = 0;
};

/// Blocking calls on `threads` threads.
std::unique_ptr<BlockIo> make_thread_io(int threads, MoveBlock move = move_block);

/// io_uring with at most `depth` requests at a time; nullptr where the build or system has none.
std::unique_ptr<BlockIo> make_uring_io(int depth);

}  // namespace tessera
