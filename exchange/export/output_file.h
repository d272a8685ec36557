// SPDX-License-Identifier: Apache-2.0
// A file that appears under its name when it is whole.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/status.h"

namespace tessera::exchange {

class OutputFile {
 public:
  /// Writes beside `path` until `finish`. Fails: io_error, naming the path, and
  /// `check_replaces_export`.
  static Result<OutputFile> create(const std::string& path);
  OutputFile(OutputFile&& other) noexcept = default;
  ~OutputFile();

  /// Errors are kept until `finish`.
  void write(std::string_view bytes);
  /// The file gets its name. Fails: io_error.
  Status finish();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  OutputFile(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  std::string beside() const { return path_ + ".partial"; }
  Status failed() const;

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;  // null: finished, or moved from
};

}  // namespace tessera::exchange
