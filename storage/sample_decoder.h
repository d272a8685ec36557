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

/// The chunk whose buffers, classes and changes are those of a chunk: itself, or the one that it
/// shares all three with.
struct ChangesOf {
  Rank rank = 0;
  std::int64_t seq = 0;
};
/// Fails: corrupt.
Result<ChangesOf> changes_of(const ChunkHeader& header, std::span<const std::uint8_t> data);
/// The sums of changes of a chunk by buffer and class, in any order, where they are not 0. Fails:
/// as decode_shared_samples; what is wrong with times is not found.
Result<std::vector<HeldBuffer>> sum_shared_samples(const ChunkHeader& header,
                                                   std::span<const std::uint8_t> data,
                                                   const SampleContext& context);
/// Adds `more` to `held`, both in any order; `held` is ascending then.
void add_held(std::span<const HeldBuffer> more, std::vector<HeldBuffer>& held);
/// The sums of samples.
std::vector<HeldBuffer> held_by(const MemorySeries& series);

}  // namespace tessera::storage
