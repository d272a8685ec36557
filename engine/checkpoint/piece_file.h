// SPDX-License-Identifier: Apache-2.0
// One rank's file of a checkpoint: pieces in a safetensors file, each with a checksum in the file's
// metadata. The manifest holds the checksum of the header, so every byte is covered.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/piece.h"
#include "engine/files/file_system.h"

namespace tessera {

/// A piece with its values, which must live until they are written.
struct PieceData {
  Piece piece;
  std::span<const float> values;
};

/// Writes and synchronises the file. Returns its header's checksum. Fails: io_error.
Result<std::uint64_t> write_piece_file(FileSystem& files, const std::string& path,
                                       std::vector<PieceData> pieces);

/// The place of a piece in a file.
struct StoredPiece {
  Piece piece;
  std::int64_t offset = 0;  // bytes, in the file
  std::uint64_t sum = 0;
};

class PieceFile {
 public:
  /// Opens the file and checks its header against the checksum `sum`.
  /// Fails: io_error, corrupt, naming file and tensor.
  static Result<PieceFile> open(FileSystem& files, const std::string& path, std::uint64_t sum);

  const std::string& path() const { return path_; }
  Bytes size() const { return file_->size(); }
  const std::vector<StoredPiece>& pieces() const { return pieces_; }
  /// Fails: io_error; corrupt, if the checksum does not match.
  Status read(const StoredPiece& piece, std::vector<float>& into) const;

 private:
  std::string path_;
  std::unique_ptr<ReadableFile> file_;
  std::vector<StoredPiece> pieces_;
};

}  // namespace tessera
