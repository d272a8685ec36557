// SPDX-License-Identifier: Apache-2.0
#include "exchange/merge/merge_spans.h"

#include <algorithm>

namespace tessera::exchange {

// The rank's next chunk.
Status MergeSpans::unpack(std::size_t rank) {
  const MergeRank& of = all_.ranks[rank];
  const MergeSource& source = all_.sources[of.source];
  Unpacked& unpacked = ranks_[rank];
  std::vector<MergeSpan>& spans = unpacked.spans;
  spans.erase(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(unpacked.at));
  unpacked.at = 0;
  TESSERA_ASSIGN(const auto lanes,
                 source.reader.lanes(of.rank, of.chunks[unpacked.next++].stretch));
  for (const storage::Lane& lane : lanes) {
    TESSERA_TRY(check_merge_times(source, {&lane.begin, &lane.ready, &lane.end}));
    for (std::size_t k = 0; k < lane.op.size(); ++k) {
      spans.push_back({lane.op[k], lane.begin[k], lane.ready[k], lane.end[k]});
    }
  }
  std::stable_sort(spans.begin(), spans.end(),
                   [](const MergeSpan& a, const MergeSpan& b) { return a.op < b.op; });
  return {};
}

Result<const std::vector<const MergeSpan*>*> MergeSpans::of(std::int32_t op) {
  found_.assign(ranks_.size(), nullptr);
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const std::vector<MergeChunk>& chunks = all_.ranks[r].chunks;
    Unpacked& unpacked = ranks_[r];
    while (unpacked.next < chunks.size() && chunks[unpacked.next].first_op <= op) {
      TESSERA_TRY(unpack(r));
    }
    std::size_t& at = unpacked.at;
    const std::vector<MergeSpan>& spans = unpacked.spans;
    while (at < spans.size() && spans[at].op < op) ++at;
    if (at < spans.size() && spans[at].op == op) found_[r] = &spans[at];
  }
  return &found_;
}

}  // namespace tessera::exchange
