// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/merge_samples.h"

#include <limits>
#include <utility>

namespace tessera::exchange {

Result<MergeSamples> MergeSamples::open(const MergeSources& all, std::size_t rank) {
  const MergeSource& source = all.sources[all.ranks[rank].source];
  TESSERA_ASSIGN(std::vector<Time> begins, source.reader.sample_begins(all.ranks[rank].rank));
  return MergeSamples(source, all.ranks[rank].rank, std::move(begins));
}

Result<const MemorySample*> MergeSamples::peek() {
  while (at_ == series_.time.size()) {
    if (next_ == begins_.size()) return nullptr;
    const Time begin = begins_[next_++];
    const Time end = next_ < begins_.size() ? begins_[next_] : std::numeric_limits<Time>::max();
    TESSERA_ASSIGN(series_, source_->reader.memory(rank_, begin, end));
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
