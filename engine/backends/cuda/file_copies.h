// SPDX-License-Identifier: Apache-2.0
// Copies between memory and files, for which neither the host nor other streams stop.
//
// The idea: the stream of a copy waits at a gate, for a number in pinned memory. Whoever looks
// anyway finds that the stream has come there, starts the file's transfer, and writes the number
// when that is over. Blocks are moved by the file's own queue (BlockIo), so nobody here waits for a
// drive.
//
// What the host cannot look at has its checksums from the device, on the same stream: of what is
// written before the gate; of what was read behind it, and then a second gate opens when they are
// those of what was written.
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
  struct Piece {
    CopyBlocks blocks;
    std::span<std::byte> memory;  // the one of its views that is in no file
  };
  /// All but `rank` must outlive it.
  FileCopies(const CudaApi& api, const KernelApi& kernels, EventPool& events, SwapStore& files,
             Rank rank)
      : api_(api), kernels_(kernels), events_(events), files_(files), rank_(rank), words_(api) {}
  FileCopies(const FileCopies&) = delete;
  FileCopies& operator=(const FileCopies&) = delete;
  ~FileCopies();

  /// Whether the host cannot look at what moves.
  static bool passes_host(CopyRoute route) {
    return route == CopyRoute::device_to_nvme || route == CopyRoute::nvme_to_device;
  }
  /// What is copied between `file`, of so many bytes, and the device needs it before.
  /// Fails: out_of_memory.
  Status make_sums(BufferId file, Bytes bytes);
  /// Happens when `stream` has come to it, which goes on when it is over.
  Status submit(CopyRoute route, std::vector<Piece> pieces, CudaStream stream);
  /// The file's place of `buffer` is given back after the copies so far.
  void release(BufferId buffer);
  /// Starts and ends what can be, without waiting. Returns whether there was any.
  /// Fails: io_error.
  Result<bool> advance();
  /// Streams go on as if all were over; what the files are doing ends with them.
  void give_up();
  /// Leaves the numbers to the end of the process: somebody may still wait for one.
  void abandon();

 private:
  struct Waiting {
    std::int64_t number = 0;  // of all copies
    CopyRoute route = CopyRoute::to_nvme;
    std::vector<Piece> pieces;
    CudaEvent reached = nullptr;     // the gate; null: it has been
    std::optional<FileTask> moving;  // from the gate on, until its blocks are there
    CudaEvent summed = nullptr;      // what was read; null: the host can look itself
  };
  struct Queue {
    CudaStream stream = nullptr;
    std::size_t place = 0;
    std::uint32_t gates = 0;   // submitted
    std::uint32_t opened = 0;  // of them
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
  PinnedMemory words_;                     // one for each queue: how many of its gates are open
  std::map<BufferId, PinnedMemory> sums_;  // of its blocks, by file
  std::deque<Queue> queues_;
  std::deque<std::pair<std::int64_t, BufferId>> leaving_;  // after the copies below a number
  std::int64_t next_ = 0;
};

}  // namespace tessera
