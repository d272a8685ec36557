// SPDX-License-Identifier: Apache-2.0
// Packed runs of spans of a rank on all of its streams, which have in common with those of another
// rank, or of earlier steps, what does not depend on time.
//
// The idea: ranks run the same operations, step by step, so the plan of a chunk (SpanPlan) is in
// one chunk, and the others name it. Where ranks wait for one another they go on at the same time,
// which is in one of their chunks.
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "storage/span_plan.h"
#include "storage/span_run.h"

namespace tessera::storage {

/// Chunks end with a step that makes them as large as this, or anyway.
inline constexpr std::size_t spans_per_cut = 12288, span_count_max = 16384;

/// Spans of a chunk, as columns.
struct SpanColumns {
  std::shared_ptr<const SpanPlan> plan;
  std::int32_t op_shift = 0;  // of the ids of operations against the plan's
  std::vector<Time> begin, ready, end;

  std::int32_t op(std::size_t i) const { return plan->ops()[i] + op_shift; }
};

class SpanEncoder {
 public:
  explicit SpanEncoder(const KnownOps& ops) : ops_(ops) {}

  /// Replaces `data`; fills count, t0 and t1 of `header`. `complete`: others may build on it from
  /// now on, and it on others. REQUIRES: 1 to span_count_max spans of operations that are known.
  void encode(const SpanRun& spans, bool complete, ChunkHeader& header,
              std::vector<std::uint8_t>& data);

 private:
  struct Chunk {
    Rank rank;
    std::int64_t seq;
    SpanColumns spans;
  };
  /// What a chunk builds on: the plan, and the times too if it is of the same number.
  const Chunk* same_operations(std::int64_t seq, std::span<const std::int32_t> ops) const;
  const Chunk* same_plan(const SpanPlan& plan) const;
  std::shared_ptr<const SpanPlan> plan_of(std::span<const std::int32_t> ops);
  /// Appends the columns of times to rest_; returns the flags that say how.
  std::int64_t append_times(const SpanRun& spans, const SpanPlan& plan, const SpanColumns* model);
  void remember(Chunk chunk, bool has_plan);

  const KnownOps& ops_;
  std::deque<Chunk> plans_;                    // chunks that have a plan of their own, the latest
  std::deque<Chunk> chunks_;                   // the first ones of a number, the latest
  std::shared_ptr<const SpanPlan> last_plan_;  // that was made
  std::vector<std::int64_t> column_, other_;   // of the chunk being packed
  std::vector<std::uint8_t> rest_;             // its columns of times
};

/// The spans of another chunk of the same count: of a rank, with a number, for one so deep.
using SpanModel = std::function<Result<std::shared_ptr<const SpanColumns>>(
    Rank, std::int64_t seq, const ChunkHeader& like, int depth)>;

/// `depth`: how many chunks build on it in a row, 0 for what is wanted itself; a chunk's times are
/// in one other, whose plan is in one other. Fails: corrupt, naming the chunk; what `model` fails
/// with.
Result<SpanColumns> decode_shared_spans(const ChunkHeader& header,
                                        std::span<const std::uint8_t> data, int depth,
                                        const SpanModel& model);

}  // namespace tessera::storage
