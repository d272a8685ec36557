// SPDX-License-Identifier: Apache-2.0
// Writes a checkpoint without an engine: one whole tensor after another, in little memory.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/piece_file.h"

namespace tessera {

class CheckpointWriter {
 public:
  /// `about` says step, model, scheme and parameters. Makes the folder.
  /// Fails: invalid_argument (the folder has a later checkpoint), io_error.
  static Result<CheckpointWriter> create(FileSystem& files, const std::string& directory,
                                         Manifest about);

  /// All elements of one tensor; each is added once. Fails: io_error.
  Status add(const std::string& parameter, StateTensor tensor, std::vector<float> values);
  /// From here on the checkpoint exists. Fails: io_error, corrupt.
  Status finish();

 private:
  CheckpointWriter(FileSystem& files, const std::string& directory, Manifest about)
      : files_(files), folder_(files, directory), manifest_(std::move(about)) {}
  Status write_file();

  struct Waiting {
    std::string parameter;
    StateTensor tensor = StateTensor::value;
    std::vector<float> values;
  };

  FileSystem& files_;
  CheckpointFolder folder_;
  Manifest manifest_;
  std::int32_t generation_ = 0;
  std::vector<Waiting> waiting_;  // for the next file
  Bytes waiting_bytes_{};
};

}  // namespace tessera
