// SPDX-License-Identifier: Apache-2.0
#include "cli/train/held_pipe.h"

#include <fmt/format.h>
#include <sys/fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace tessera::cli {

HeldPipe::HeldPipe(const std::string& path) : path_(path) {
  std::error_code error;
  if (!std::filesystem::is_fifo(path, error)) return;
  pipe_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

HeldPipe::~HeldPipe() {
  if (pipe_ >= 0) ::close(pipe_);
}

Status HeldPipe::check() const {
  if (pipe_ < 0) return {};
  int copy[2];
  if (::pipe2(copy, O_CLOEXEC) != 0) return {};
  // Takes nothing out of the pipe; 0: no byte is there, and nobody could write one.
  const bool silent = ::tee(pipe_, copy[1], 1, SPLICE_F_NONBLOCK) == 0;
  for (const int end : copy) ::close(end);
  if (!silent) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: is a pipe that nobody writes into: start what writes first, or "
                            "name a file",
                            path_));
}

}  // namespace tessera::cli
