// SPDX-License-Identifier: Apache-2.0
// Packed runs of up to 4096 spans of a rank on all of its streams, which have in common with those
// of another rank what does not depend on time.
//
// The idea: ranks run the same operations, so the plan of a chunk (SpanPlan) is in that of one
// rank, the model, and the others name it. Where ranks wait for one another they go on at the
// model's time.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "storage/span_plan.h"

namespace tessera::storage {

/// Spans of a chunk, as columns.
struct SpanColumns {
  std::shared_ptr<const SpanPlan> plan;
  std::vector<Time> begin, ready, end;
};

class SpanEncoder {
 public:
  explicit SpanEncoder(const KnownOps& ops) : ops_(ops) {}

  /// Replaces `data`; fills count, t0 and t1 of `header`. `complete`: others may build on it from
  /// now on, and it on others. REQUIRES: 1 to chunk_count_max spans of operations that are known.
  void encode(std::span<const SpanEntry> spans, bool complete, ChunkHeader& header,
              std::vector<std::uint8_t>& data);

 private:
  struct Model {
    Rank rank;
    std::int64_t seq;
    SpanColumns spans;
  };
  const Model* model_for(std::int64_t seq, const std::vector<std::int32_t>& ops) const;

  const KnownOps& ops_;
  std::deque<Model> models_;  // the latest
};

/// The spans of another rank's chunk of the same number and count.
using SpanModel =
    std::function<Result<std::shared_ptr<const SpanColumns>>(Rank, const ChunkHeader&)>;

/// `is_model`: it is asked for by another, so it must not build on one itself. Fails: corrupt,
/// naming the chunk; what `model` fails with.
Result<SpanColumns> decode_shared_spans(const ChunkHeader& header,
                                        std::span<const std::uint8_t> data, bool is_model,
                                        const SpanModel& model);

}  // namespace tessera::storage
