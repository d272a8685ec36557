// SPDX-License-Identifier: Apache-2.0
// A folder with checkpoints: it lists the complete ones, prepares the files of a new one and
// completes it. Only one process may call it.
//
// The idea: a checkpoint is complete when its manifest exists, and a manifest appears at once. A
// checkpoint that is saved again gets files of other names beside the old ones, so the old manifest
// stays true until the new one replaces it.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/files/file_system.h"

namespace tessera {

class CheckpointFolder {
 public:
  CheckpointFolder(FileSystem& files, std::string path) : files_(files), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string of_step(std::int64_t step) const;
  /// "rank-00003.0.safetensors"; `generation` differs between two saves of one step.
  static std::string rank_file(Rank rank, std::int32_t generation);

  struct Content {
    std::vector<std::int64_t> steps;       // with a complete checkpoint, ascending
    std::vector<std::int64_t> unfinished;  // whose folder has no manifest
  };
  /// What the folders have that are called by a step. Fails: io_error.
  Result<Content> content() const;
  /// The other folders, if they have a manifest. Fails: io_error.
  Result<std::vector<std::string>> renamed() const;

  /// Makes the folder of `step`, and removes what incomplete checkpoints left. Returns the
  /// generation of its files. Fails: invalid_argument (there is a later checkpoint), io_error.
  Result<std::int32_t> prepare(std::int64_t step);
  /// Checks the files that the manifest names, fills in their sizes and writes the manifest, from
  /// which moment on the checkpoint is complete. Then removes all but the newest `keep`
  /// checkpoints; with 0 it removes none. Fails: io_error, corrupt.
  Status complete(Manifest manifest, std::int32_t keep);

 private:
  Status remove_checkpoint(std::int64_t step);
  Status remove_but(const std::string& folder, const std::vector<std::string>& kept);

  FileSystem& files_;
  const std::string path_;
};

/// The manifest of the checkpoint at `path`, or of the newest one in it; `path` becomes the
/// checkpoint's own. Fails: io_error, corrupt, not_supported; invalid_argument (its folder is
/// called as that of another step).
Result<Manifest> read_manifest(FileSystem& files, std::string& path);

}  // namespace tessera
