// SPDX-License-Identifier: Apache-2.0
// The files of a recording: one that is written, beside the name that it will have.
//
// The idea: a name says little, because others can remove, replace and take it. So a file is held
// by its descriptor and a lock, and whatever is done to its name is done only while that name still
// means this file.
//
//   TESSERA_ASSIGN(OwnedFile partial, OwnedFile::beside("run.tessera"));
//   ... write to partial.name() ...
//   Status status = partial.move_to("run.tessera");   // or remove(); otherwise it stays
#pragma once

#include <optional>
#include <string>

#include "tessera/status.h"

namespace tessera::storage {

class OwnedFile {
 public:
  /// An empty file for what will be `path`: `path`.partial, or `path`.2.partial, ... where
  /// recordings that were stopped lie under those names, which stay. Fails: io_error, naming the
  /// path (no such folder, a directory, not writable, another recording writes it).
  static Result<OwnedFile> beside(const std::string& path);
  /// An empty file `name`; what was there is gone, unless somebody else holds it (io_error).
  static Result<OwnedFile> replace(const std::string& name);

  OwnedFile(OwnedFile&& other) noexcept { *this = std::move(other); }
  OwnedFile& operator=(OwnedFile&& other) noexcept;
  ~OwnedFile();

  const std::string& name() const { return name_; }
  int descriptor() const { return descriptor_; }

  /// Waits until the bytes are on the device, then renames, replacing what was at `path`.
  /// Fails: io_error, also if the name means another file by now.
  Status move_to(const std::string& path);
  /// Removes it and what SQLite has beside it, unless the name means another file by now.
  void remove();

 private:
  OwnedFile() = default;
  /// Nothing: another recording holds it. Fails: io_error.
  static Result<std::optional<OwnedFile>> open(const std::string& name);
  bool named() const;
  Status clear();

  std::string name_;
  int descriptor_ = -1;  // holds the lock; -1: moved from
};

}  // namespace tessera::storage
