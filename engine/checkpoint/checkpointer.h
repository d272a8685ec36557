// SPDX-License-Identifier: Apache-2.0
// The phases of a save: all ranks write their files, then the first rank completes the checkpoint.
// A phase ends when all ranks agree that it is over.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/background.h"
#include "engine/checkpoint/engine_state.h"
#include "engine/checkpoint/folder.h"
#include "engine/checkpoint/snapshot.h"
#include "tessera/checkpoint.h"

namespace tessera {

class EngineCheckpointer final : public Checkpointer {
 public:
  EngineCheckpointer(EngineState state, const CheckpointOptions& options, FileSystem& files);
  Status setup();

  Status save(std::int64_t step, const CheckpointBlobs& blobs) override;
  Status poll() override { return advance(/*to_the_end=*/false); }
  Status finish() override { return advance(/*to_the_end=*/true); }

 private:
  enum class Phase : std::uint8_t { idle, writing, completing };
  // The input and output of the background thread, which shares its ownership.
  struct Files {
    std::vector<std::pair<Rank, std::vector<PieceData>>> pieces;  // of local ranks
    std::vector<std::uint64_t> sums;                              // of headers, as in `pieces`
    Manifest manifest;
    std::int32_t generation = 0;
  };

  Status advance(bool to_the_end);
  Status end_of_writing(const Status& written);
  Manifest manifest_of(std::int64_t step, const CheckpointBlobs& blobs) const;
  Result<std::int32_t> prepare(std::int64_t step);
  Status check_folder() const;
  std::string what() const;

  const EngineState state_;
  const CheckpointOptions options_;
  FileSystem& files_;
  CheckpointFolder folder_;
  Phase phase_ = Phase::idle;
  std::shared_ptr<Files> saved_;
  std::optional<Snapshot> snapshot_;
  Background background_;  // last: it ends before what its job uses
};

/// As Checkpointer::create, on a file system that a test may watch.
Result<std::unique_ptr<Checkpointer>> make_checkpointer(Engine& engine,
                                                        const CheckpointOptions& options,
                                                        FileSystem& files);

}  // namespace tessera
