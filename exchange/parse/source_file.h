// SPDX-License-Identifier: Apache-2.0
// A file to import: read once from begin to end, through gzip if it is compressed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"

namespace tessera::exchange {

class SourceFile {
 public:
  /// Bytes of the file that were read since the last call.
  using Progress = std::function<void(std::int64_t)>;

  /// Fails: io_error (missing, a folder, unreadable), not_supported (gzip in a build without zlib).
  static Result<SourceFile> open(const std::string& path, Progress progress = {});
  SourceFile(SourceFile&&) noexcept;
  ~SourceFile();

  const std::string& path() const { return path_; }
  /// The path without folders, for labels.
  std::string name() const;
  /// The first 64 KiB of the content, unpacked. They are read again by `read`.
  std::string_view head() const { return head_; }
  /// Names of the tables if it is an SQLite database, else empty. Read it by SqliteFile.
  const std::vector<std::string>& tables() const { return tables_; }
  bool has_table(std::string_view name) const;

  /// Fills the begin of `buffer`; 0: the end. Fails: io_error, corrupt (gzip).
  Result<std::size_t> read(std::span<char> buffer);
  /// Whether the end that `read` found is in the middle of a gzip stream.
  bool breaks_off() const;
  /// All of it, for formats whose files are small. Fails: as `read`; out_of_memory (> `most`).
  Result<std::string> read_all(std::int64_t most);

  /// "\"rank0.json\": what", of that code.
  Status error(Code code, std::string_view what) const;

 private:
  struct Stream;
  SourceFile(std::string path, std::unique_ptr<Stream> stream);

  std::string path_;
  std::unique_ptr<Stream> stream_;
  std::string head_;
  std::size_t head_read_ = 0;
  std::vector<std::string> tables_;
};

}  // namespace tessera::exchange
