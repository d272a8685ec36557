// SPDX-License-Identifier: Apache-2.0
// Copies between memory and files, for which neither the host nor other streams wait.
//
// The idea: a stream that comes to a gate writes its number to pinned memory and waits for the same
// number in another word. Whoever polls and finds that the stream has reached the gate starts the
// file's transfer, and opens the gate when that is over. Blocks are moved by the file's own queue
// (BlockIo), so nobody waits for a drive.
//
// Polling calls nothing of CUDA: a call of CUDA may wait for the device (the first launch of a
// kernel, a full queue), and the device for a gate. So another thread can poll (FileService).
//
// Where the host cannot read the memory, the device computes the checksums on the same stream: a
// write computes them before the gate. A read computes them behind it, and a second gate opens when
// they equal those of the write.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
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
  enum class Seen { idle, waits_for_device, waits_for_drive, progress };
  struct Piece {
    CopyBlocks blocks;
    std::span<std::byte> memory;  // its side in memory
  };
  /// All references must outlive it.
  FileCopies(const CudaApi& api, const KernelApi& kernels, SwapStore& files, Rank rank)
      : api_(api), kernels_(kernels), files_(files), rank_(rank), words_(api) {}
  FileCopies(const FileCopies&) = delete;
  FileCopies& operator=(const FileCopies&) = delete;
  ~FileCopies();

  /// Whether the copy goes past the host, which then cannot read the data.
  static bool passes_host(CopyRoute route) {
    return route == CopyRoute::device_to_nvme || route == CopyRoute::nvme_to_device;
  }
  /// Whether there is a file. The first one, and checksums, pin memory: the device should then have
  /// nothing to do.
  bool is_open() const { return words_.base() != nullptr; }
  /// Allocates the place of a buffer in its file. Fails: as SwapStore::allocate.
  Status allocate(BufferId buffer, const Allocation& request);
  /// Allocates the checksums of a buffer of `bytes` bytes in a file. REQUIRED before the buffer is
  /// copied to or from the device. Fails: out_of_memory.
  Status make_sums(BufferId file, Bytes bytes);
  /// Enqueues the copy: it starts when `stream` has come to it, and `stream` goes on when it is
  /// over.
  Status submit(CopyRoute route, std::vector<Piece> pieces, CudaStream stream);
  /// Frees the place of `buffer` in its file after the copies submitted so far.
  void release(BufferId buffer);
  /// Starts and ends all transfers that can be, without waiting. Returns whether there were any
  /// since the last call, by whomever. Fails: io_error; as `fail`.
  Result<bool> advance();
  /// The same of another thread, which frees nothing. Fails: io_error.
  Result<Seen> serve();
  /// Of that thread, which gives up: streams go on, and the next `advance` or `submit` says why.
  void fail(const Status& why);
  /// Opens all gates, so that streams go on as if all copies were over. REQUIRES: nobody serves.
  void give_up();
  /// Leaks the numbers until the process ends: a stream may still wait for one.
  void abandon();

 private:
  struct Waiting {
    std::int64_t number = 0;  // counts all copies
    CopyRoute route = CopyRoute::to_nvme;
    std::vector<Piece> pieces;
    std::uint32_t gate = 0;          // behind which the blocks have moved
    std::optional<FileTask> moving;  // the transfer, from the gate on until its blocks have moved
    bool moved = false;              // what is left are the device's checksums, at the next gate
  };
  struct Queue {
    CudaStream stream = nullptr;
    std::size_t place = 0;
    std::uint32_t gates = 0;   // gates submitted
    std::uint32_t opened = 0;  // gates opened
    std::deque<Waiting> copies;
  };
  using Sums = std::map<BufferId, PinnedMemory>;
  Result<Queue*> queue_of(CudaStream stream);
  std::uint32_t* opened_word(const Queue& queue) const;
  std::uint32_t* reached_word(const Queue& queue) const;
  bool reached(const Queue& queue, std::uint32_t gate) const;
  Status add_gate(const Queue& queue, std::uint32_t gate);
  void open_gates(Queue& queue, std::uint32_t gates);
  Result<Seen> advance(Queue& queue);
  Result<Seen> advance_queues();
  void start(Waiting& copy);
  Status sum(const Waiting& copy, CudaStream stream);
  static BufferId file_of(const Waiting& copy, const Piece& piece);
  std::span<std::uint64_t> sums_of(const Waiting& copy, const Piece& piece);
  Status check(const Waiting& copy);
  void release_slots();

  const CudaApi& api_;
  const KernelApi& kernels_;
  SwapStore& files_;
  const Rank rank_;
  // Held for whatever two threads use: the queues, their files and checksums. Never in a call of
  // CUDA. Only the submitting thread adds and frees.
  std::mutex mutex_;
  PinnedMemory words_;  // two per queue: the number of its open gates, and of those reached
  Sums sums_;           // checksums of blocks, by buffer
  std::vector<Sums::node_type> spare_;  // of files that are gone; the submitting thread's
  std::deque<Queue> queues_;
  std::deque<std::pair<std::int64_t, BufferId>> leaving_;  // after the copies below a number
  std::int64_t next_ = 0;
  std::int64_t steps_ = 0;  // by which copies have gone on
  std::int64_t seen_ = 0;   // of these by `advance`
  Status failed_;
};

}  // namespace tessera
