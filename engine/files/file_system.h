// SPDX-License-Identifier: Apache-2.0
// What writers of files that must not be lost ask of a file system.
//
// The idea: few calls, each of which may fail, so that a test can put one in between that fails,
// stops or loses power at any of them. Functions may be called from several threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

/// Closed when it is destroyed; what was not synchronised may be lost with the machine's power.
class WrittenFile {
 public:
  virtual ~WrittenFile() = default;
  /// Behind what was written before. Fails: io_error, naming the file, also if the disk took less.
  virtual Status write(std::span<const std::byte> bytes) = 0;
  /// What was written is on the disk. Fails: io_error.
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

  /// Nothing if it exists.
  virtual Status make_folder(const std::string& path) = 0;
  /// Empty, whatever was there.
  virtual Result<std::unique_ptr<WrittenFile>> create(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  /// Replaces `to` at once.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// Names that were created, renamed or removed in it are on the disk.
  virtual Status sync_folder(const std::string& path) = 0;
  /// A file or an empty folder; nothing if it does not exist.
  virtual Status remove(const std::string& path) = 0;
  /// In ascending order; nothing if there is no such folder.
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
};

FileSystem& system_files();

/// All of a file. Fails: io_error.
Result<std::string> read_text(FileSystem& files, const std::string& path);

}  // namespace tessera
