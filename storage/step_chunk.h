// SPDX-License-Identifier: Apache-2.0
// The steps of up to 4096 ranks, packed: what was a row per step and rank before.
//
// The idea: ranks of a step are alike, and most columns follow from others up to a little. So each
// column is what cannot be predicted, as the difference to the rank before.
#pragma once

#include "storage/chunk.h"
#include "storage/database.h"

namespace tessera::storage {

/// Replaces `data` by the ranks [header.rank, header.rank + header.count) of `steps`; fills t0 and
/// t1 of `header`. REQUIRES: 1 to chunk_count_max of them, `steps` has them.
void encode_steps(const RankStepBatch& steps, ChunkHeader& header, std::vector<std::uint8_t>& data);

/// Appends the ranks to the columns of `steps`. Fails: corrupt, naming the chunk; what was appended
/// then is nothing.
Status decode_steps(const ChunkHeader& header, std::span<const std::uint8_t> data,
                    RankSteps& steps);

}  // namespace tessera::storage
