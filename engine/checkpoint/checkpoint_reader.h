// SPDX-License-Identifier: Apache-2.0
// Finds elements of a complete checkpoint by parameter and tensor, whichever rank wrote them.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/piece_file.h"

namespace tessera {

class CheckpointReader {
 public:
  /// `path` as for read_checkpoint. Reads the manifest and the headers of all files.
  /// Fails: as read_checkpoint; corrupt (a file of another size, a piece of no parameter or beyond
  /// its end), naming it.
  static Result<CheckpointReader> open(FileSystem& files, std::string path);

  const std::string& path() const { return path_; }
  const Manifest& manifest() const { return manifest_; }
  /// The manifest's entry for the parameter, or nullptr.
  const CheckpointParameter* find(const std::string& name) const;

  /// Fills `into` from element `first` on, from `rank`'s own copy where the checkpoint has one and
  /// otherwise from rank 0's. Reads whole pieces and keeps the last one for the next call.
  /// Fails: corrupt (a checksum; elements that are missing), io_error.
  Status read(const std::string& parameter, StateTensor tensor, Rank rank, Numel first,
              std::span<float> into);

  /// Reads every piece once. Fails: corrupt (a checksum, elements that are missing or stored
  /// twice).
  Status verify();

 private:
  struct Place {
    std::size_t file = 0;
    StoredPiece stored;
  };
  using Key = std::tuple<std::string, StateTensor, Rank>;
  using Places = std::map<Numel, Place>;  // by the first element

  Status add(std::size_t file, FileSystem& files);
  Status check_whole(const CheckpointParameter& parameter, StateTensor tensor,
                     const Places& places) const;
  const Places* places_of(const std::string& parameter, StateTensor tensor, Rank rank) const;
  Status load(const Place& place);
  Status missing(const std::string& parameter, StateTensor tensor, Numel first) const;

  std::string path_;
  Manifest manifest_;
  std::map<std::string, const CheckpointParameter*> parameters_;
  std::vector<PieceFile> files_;
  std::map<Key, Places> places_;
  std::pair<std::size_t, std::int64_t> loaded_{~std::size_t{0}, 0};  // file and offset
  std::vector<float> values_;                                        // of that piece
};

}  // namespace tessera
