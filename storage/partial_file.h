// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name only when complete.
//
//   TESSERA_ASSIGN(PartialFile file, PartialFile::create("run.tessera"));
//   ... write to file.partial_path() ...
//   Status status = file.publish();   // without this the destructor removes the partial file
#pragma once

#include <string>

#include "tessera/status.h"

namespace tessera::storage {

class PartialFile {
 public:
  /// An empty file `path` + ".partial", locked against other recordings.
  /// Fails: io_error, naming the path (no such folder, a directory, not writable, in use).
  static Result<PartialFile> create(const std::string& path);

  PartialFile(PartialFile&& other) noexcept { *this = std::move(other); }
  PartialFile& operator=(PartialFile&& other) noexcept;
  ~PartialFile();

  const std::string& partial_path() const { return partial_path_; }

  /// Waits until the bytes are on the device, then renames, replacing what was there.
  /// Fails: io_error; the partial file is removed then. REQUIRES: called once.
  Status publish();

 private:
  PartialFile() = default;
  void remove();

  std::string path_, partial_path_;
  int descriptor_ = -1;  // holds the lock; -1: nothing to remove
};

}  // namespace tessera::storage
