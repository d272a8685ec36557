// SPDX-License-Identifier: Apache-2.0
// manifest.json: what a checkpoint is and which files belong to it. A folder with one is complete.
#pragma once

#include <string>
#include <vector>

#include "tessera/checkpoint.h"

namespace tessera {

inline constexpr const char* manifest_name = "manifest.json";

struct Manifest {
  struct File {
    std::string name;
    Bytes bytes{};
    std::uint64_t header_sum = 0;
  };

  std::int64_t step = 0;
  std::string model, scheme;
  Rank world_size = 1;
  std::vector<CheckpointParameter> parameters;
  std::vector<File> files;
  CheckpointBlobs blobs;
};

std::string to_json(const Manifest& manifest);
/// Fails: corrupt (not JSON, a checksum or a key that is wrong), not_supported (a newer format),
/// naming `source` and the key.
Result<Manifest> parse_manifest(std::string_view text, const std::string& source);

/// Elements of the parameter. REQUIRES: of a parsed manifest, or a model's.
Numel numel_of(const CheckpointParameter& parameter);

}  // namespace tessera
