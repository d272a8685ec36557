// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/file_service.h"

#include <fmt/format.h>

#include <chrono>

namespace tessera {
namespace {

// Between two looks at blocks or streams that are under way: far below a block's own time.
constexpr std::chrono::microseconds pause_time{50};

}  // namespace

// A submitting thread that is not inside of CUDA notices a drive that hangs at the deadline, and
// knows the copy's name: it goes first.
FileService::FileService(FileCopies& copies, Rank rank, const CudaOptions& options)
    : copies_(copies),
      rank_(rank),
      clock_(options.clock),
      patience_(2 * options.deadline),
      thread_([this] { run(); }) {}

FileService::~FileService() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void FileService::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

// Waits until there may be something to do. Returns false when the thread is to end.
bool FileService::pause(FileCopies::Seen seen) {
  std::unique_lock lock(mutex_);
  if (seen == FileCopies::Seen::idle) {
    changed_.wait(lock, [this] { return ends_ || woken_; });
    woken_ = false;
  } else if (seen != FileCopies::Seen::progress) {
    changed_.wait_for(lock, pause_time, [this] { return ends_; });
  }
  return !ends_;
}

Result<FileCopies::Seen> FileService::look() {
  TESSERA_ASSIGN(const FileCopies::Seen seen, copies_.serve());
  const Time now = time();
  if (seen != FileCopies::Seen::waits_for_drive) since_ = now;
  if (now - since_ <= patience_) return seen;
  return Status(Code::timed_out, fmt::format("rank {} waited {:.1f} s for a drive that moved no "
                                             "block of its files",
                                             rank_, static_cast<double>(now - since_) * 1e-9));
}

void FileService::run() {
  FileCopies::Seen seen = FileCopies::Seen::idle;
  while (pause(seen)) {
    const auto looked = look();
    if (!looked.ok()) return copies_.fail(looked.status());
    seen = *looked;
  }
}

}  // namespace tessera
