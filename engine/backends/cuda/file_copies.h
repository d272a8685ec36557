// SPDX-License-Identifier: Apache-2.0
// Copies between memory and files, for which neither the host nor other streams wait.
//
// The idea: the stream of a copy waits at a gate, for a number in pinned memory. When the host
// polls and finds that the stream has reached the gate, it starts the file's transfer, and it
// writes the number when that is over. Blocks are moved by the file's own queue (BlockIo), so the
// host never waits for a drive.
//
// Where the host cannot read the memory, the device computes the checksums on the same stream: a
// write computes them before the gate. A read computes them behind it, and a second gate opens when
// they equal those of the write.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backends/cuda/kernel_api.h"
#include "engine/backends/cuda/lane.h"
#include "engine/backends/cuda/staging.h"
#include "engine/backends/host/file_task.h"
#include "engine/swap/swap_store.h"

namespace tessera {

class FileCopies {
 public:
  static constexpr int entries_max = 6;  // of a stream, for each piece of a copy
  struct Piece {
    CopyBlocks blocks;
    std::span<std::byte> memory;  // its side in memory
  };
  /// All references must outlive it.
  FileCopies(const CudaApi& api, const KernelApi& kernels, EventPool& events, SwapStore& files,
             Rank rank)
      : api_(api), kernels_(kernels), events_(events), files_(files), rank_(rank), words_(api) {}
  FileCopies(const FileCopies&) = delete;
  FileCopies& operator=(const FileCopies&) = delete;
  ~FileCopies();

  /// Whether the copy goes past the host, which then cannot read the data.
  static bool passes_host(CopyRoute route) {
    return route == CopyRoute::device_to_nvme || route == CopyRoute::nvme_to_device;
  }
  /// Allocates the checksums of a buffer of `bytes` bytes in a file. REQUIRED before the buffer is
  /// copied to or from the device. Fails: out_of_memory.
  Status make_sums(BufferId file, Bytes bytes);
  /// Enqueues the copy: it starts when `stream` has come to it, and `stream` goes on when it is
  /// over.
  Status submit(CopyRoute route, std::vector<Piece> pieces, CudaStream stream);
  /// Frees the place of `buffer` in its file after the copies submitted so far.
  void release(BufferId buffer);
  /// Starts and ends all transfers that can be, without waiting. Returns whether there were any.
  /// Fails: io_error.
  Result<bool> advance();
  /// Opens all gates, so that streams go on as if all copies were over.
  void give_up();
  /// Leaks the numbers until the process ends: a stream may still wait for one.
  void abandon();

 private:
  struct Waiting {
    std::int64_t number = 0;  // counts all copies
    CopyRoute route = CopyRoute::to_nvme;
    std::vector<Piece> pieces;
    CudaEvent reached = nullptr;     // the stream has come to the gate; null: it has happened
    std::optional<FileTask> moving;  // the transfer, from the gate on until its blocks have moved
    CudaEvent summed = nullptr;      // checksums of a read are there; null: the host computes them
  };
  struct Queue {
    CudaStream stream = nullptr;
    std::size_t place = 0;
    std::uint32_t gates = 0;   // gates submitted
    std::uint32_t opened = 0;  // gates opened
    std::deque<Waiting> copies;
  };
  Result<Queue*> queue_of(CudaStream stream);
  Result<bool> advance(Queue& queue);
  Status add_gate(Queue& queue);
  void open_gates(Queue& queue, std::uint32_t gates);
  void start(Waiting& copy);
  Result<bool> happened(CudaEvent& event);
  Status sum(const Waiting& copy, CudaStream stream);
  static BufferId file_of(const Waiting& copy, const Piece& piece);
  std::span<std::uint64_t> sums_of(const Waiting& copy, const Piece& piece);
  Status check(const Waiting& copy);
  void release_slots();

  const CudaApi& api_;
  const KernelApi& kernels_;
  EventPool& events_;
  SwapStore& files_;
  const Rank rank_;
  PinnedMemory words_;                     // a word per queue: the number of its open gates
  std::map<BufferId, PinnedMemory> sums_;  // checksums of blocks, by buffer
  std::deque<Queue> queues_;
  std::deque<std::pair<std::int64_t, BufferId>> leaving_;  // after the copies below a number
  std::int64_t next_ = 0;
};

}  // namespace tessera
