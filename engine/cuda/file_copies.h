// SPDX-License-Identifier: Apache-2.0
// Copies between memory and files, for which neither the host nor other streams stop.
//
// The idea: the stream of a copy waits for a number in pinned memory. Whoever looks anyway finds
// that the stream has come there, starts the file's transfer, and writes the number when that is
// over. Blocks are moved by the file's own queue (BlockIo), so nobody here waits for a drive.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/cuda/device_sums.h"
#include "engine/host/running_task.h"
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
      : api_(api),
        events_(events),
        files_(files),
        rank_(rank),
        sums_(api, kernels, events),
        words_(api) {}
  FileCopies(const FileCopies&) = delete;
  FileCopies& operator=(const FileCopies&) = delete;
  ~FileCopies();

  /// Of blocks of device memory, before what is copied between it and files.
  DeviceSums& sums() { return sums_; }

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
  void abandon() {
    words_.abandon();
    sums_.abandon();
  }

 private:
  struct Waiting {
    std::int64_t number = 0;  // of all copies
    CopyRoute route = CopyRoute::to_nvme;
    std::vector<Piece> pieces;
    CudaEvent reached = nullptr;          // null: it has been
    std::unique_ptr<RunningTask> moving;  // from then on
  };
  struct Queue {
    CudaStream stream = nullptr;
    std::size_t place = 0;
    std::uint32_t submitted = 0;
    std::deque<Waiting> copies;
  };
  Result<Queue*> queue_of(CudaStream stream);
  Result<bool> advance(Queue& queue);
  std::unique_ptr<RunningTask> start(const Waiting& copy);
  void let_go(const Queue& queue);
  std::uint32_t* word_of(const Queue& queue);
  void release_slots();

  const CudaApi& api_;
  EventPool& events_;
  SwapStore& files_;
  const Rank rank_;
  DeviceSums sums_;
  PinnedMemory words_;  // one for each queue: how many of its copies are over
  std::deque<Queue> queues_;
  std::deque<std::pair<std::int64_t, BufferId>> leaving_;  // after the copies below a number
  std::int64_t next_ = 0;
};

}  // namespace tessera
