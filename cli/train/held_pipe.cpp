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
  out_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
}

HeldPipe::~HeldPipe() {
  for (const int end : {out_, in_}) {
    if (end >= 0) ::close(end);
  }
}

Status HeldPipe::check() {
  if (out_ < 0) return {};
  int copy[2];
  if (::pipe2(copy, O_CLOEXEC) != 0) return {};
  // Takes nothing out of the pipe; 0: no byte is there, and nobody could write one.
  const bool silent = ::tee(out_, copy[1], 1, SPLICE_F_NONBLOCK) == 0;
  for (const int end : copy) ::close(end);
  in_ = ::open(path_.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (!silent) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: is a pipe that nobody writes into: start what writes first, or "
                            "name a file",
                            path_));
}

}  // namespace tessera::cli
