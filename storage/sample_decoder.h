// SPDX-License-Identifier: Apache-2.0
// Unpacks what SampleEncoder (storage/sample_chunk.h) has packed.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "storage/sample_chunk.h"

namespace tessera::storage {

/// When an edge is on the rank, and the data of the chunk of a rank and number, with that count.
struct SampleContext {
  std::function<std::optional<Time>(Edge)> time_of;
  std::function<Result<std::vector<std::uint8_t>>(Rank, const ChunkHeader&)> data_of;
};

/// Appends all samples. Fails: corrupt, naming the chunk, not_supported (a memory class of a later
/// version), what `data_of` fails with.
Status decode_shared_samples(const ChunkHeader& header, std::span<const std::uint8_t> data,
                             const SampleContext& context, MemorySeries& series);

}  // namespace tessera::storage
