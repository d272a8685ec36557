// SPDX-License-Identifier: Apache-2.0
// The file system as writers of files that must not be lost use it.
//
// The idea: few calls, each of which may fail, so that a test can put one in between that fails,
// stops or loses power at any of them. Functions may be called from several threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

/// A file that is being written. The destructor closes it; bytes that were not synchronised may be
/// lost with the machine's power.
class WrittenFile {
 public:
  virtual ~WrittenFile() = default;
  /// Appends `bytes`. Fails: io_error, naming the file, also if the disk took only a part of them.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  /// Returns when all bytes written so far are on the disk (fsync). Fails: io_error.
  virtual Status sync() = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual Bytes size() const = 0;
  /// Fills `into` from byte `offset` on. Fails: io_error, also beyond the end.
  virtual Status read(std::int64_t offset, std::span<std::byte> into) const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Makes the folder; succeeds if it exists.
  virtual Status make_folder(const std::string& path) = 0;
  /// Creates an empty file, in the place of any that exists.
  virtual Result<std::unique_ptr<WrittenFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  /// Renames `from` to `to`, which it replaces atomically.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Returns when names that were created, renamed or removed in the folder are on the disk.
  virtual Status sync_folder(const std::string& path) = 0;
  /// Removes a file or an empty folder; succeeds if there is none.
  virtual Status remove(const std::string& path) = 0;
  /// The names in the folder, ascending; empty if there is no such folder.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

/// The file system of this machine.
FileSystem& system_files();

/// Reads a whole file. Fails: io_error.
Result<std::string> read_text(FileSystem& files, const std::string& path);
/// Creates a file or replaces its content; returns when that is on the disk, which its name is
/// after `sync_folder`. Fails: io_error.
Status write_text(FileSystem& files, const std::string& path, std::string_view text);

}  // namespace tessera
