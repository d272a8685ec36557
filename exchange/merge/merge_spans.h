// SPDX-License-Identifier: Apache-2.0
// The spans of all ranks, operation by operation.
//
// The idea: chunks are unpacked when an operation needs them, and forgotten with their last span,
// so about a chunk of each rank is in memory, however many it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

/// By the clock of the rank's file.
struct MergeSpan {
  std::int32_t op = 0;
  Time begin = 0, ready = 0, end = 0;
};

class MergeSpans {
 public:
  /// `all` must outlive it.
  explicit MergeSpans(const MergeSources& all) : all_(all), ranks_(all.ranks.size()) {}

  /// By index of a rank: its span of `op`, null where it has none; valid until the next call.
  /// REQUIRES: a larger `op` than before. Fails: corrupt; as TraceReader.
  Result<const std::vector<const MergeSpan*>*> of(std::int32_t op);

 private:
  struct Unpacked {
    std::size_t next = 0;          // chunk
    std::vector<MergeSpan> spans;  // ascending by op
    std::size_t at = 0;
  };

  Status unpack(std::size_t rank);

  const MergeSources& all_;
  std::vector<Unpacked> ranks_;
  std::vector<const MergeSpan*> found_;
};

}  // namespace tessera::exchange
