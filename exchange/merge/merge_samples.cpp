// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_samples.h"

#include <utility>

namespace tessera::exchange {

Result<MergeSamples> MergeSamples::open(const MergeSources& all, std::size_t rank) {
  const MergeSource& source = all.sources[all.ranks[rank].source];
  TESSERA_ASSIGN(std::vector<std::int64_t> chunks,
                 source.reader.sample_chunks(all.ranks[rank].rank));
  return MergeSamples(source, all.ranks[rank].rank, std::move(chunks));
}

Result<const MemorySample*> MergeSamples::peek() {
  while (at_ == series_.time.size()) {
    if (next_ == chunks_.size()) return nullptr;
    TESSERA_ASSIGN(series_, source_->reader.chunk_memory(rank_, chunks_[next_++]));
    TESSERA_TRY(check_merge_times(*source_, {&series_.time}));
    at_ = 0;
  }
  sample_ = {rank_,
             series_.time[at_],
             series_.buffer[at_],
             series_.memory_class[at_],
             series_.delta[at_],
             series_.allocated[at_],
             series_.reserved[at_]};
  return &sample_;
}

}  // namespace tessera::exchange
