// SPDX-License-Identifier: Apache-2.0
// A folder for files that nobody keeps: it goes with the object.
#pragma once

#include <string>
#include <utility>

#include "tessera/status.h"

namespace tessera::cli {

class ScratchFolder {
 public:
  /// Below $TMPDIR, or where the system has temporary files. Fails: io_error, naming that folder.
  static Result<ScratchFolder> create();

  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ScratchFolder& operator=(ScratchFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;  // "": moved from
};

}  // namespace tessera::cli
