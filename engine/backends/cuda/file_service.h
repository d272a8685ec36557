// SPDX-License-Identifier: Apache-2.0
// Serves copies of files while the submitting thread is inside of CUDA.
//
// The idea: the first launch of a kernel loads it, and that may wait until the device has nothing
// to do (CUDA C++ Programming Guide, "Lazy Loading"). If a stream then waits at a gate, which only
// the submitting thread would open, neither ever goes on. This thread calls nothing of CUDA, so it
// always opens the gates of blocks that have moved.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/backends/cuda/file_copies.h"
#include "tessera/cuda_runtime.h"

namespace tessera {

class FileService {
 public:
  /// `copies` must outlive it. Of the options it needs the clock and the deadline.
  FileService(FileCopies& copies, Rank rank, const CudaOptions& options);
  FileService(const FileService&) = delete;
  FileService& operator=(const FileService&) = delete;
  /// Ends the thread.
  ~FileService();

  /// A copy has been submitted.
  void wake();

 private:
  void run();
  bool pause(FileCopies::Seen seen);
  Result<FileCopies::Seen> look();
  Time time() const { return clock_ ? clock_() : 0; }

  FileCopies& copies_;
  const Rank rank_;
  const std::function<Time()> clock_;
  const Time patience_;
  Time since_ = 0;  // when the drive last moved a block
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  bool ends_ = false;
  std::thread thread_;  // the last: it uses the others
};

}  // namespace tessera
