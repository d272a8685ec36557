// SPDX-License-Identifier: Apache-2.0
// The memory samples of one rank, a chunk after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

class MergeSamples {
 public:
  /// `all` must outlive it; `rank`: an index.
  static Result<MergeSamples> open(const MergeSources& all, std::size_t rank);

  /// The next one, by the clock of the rank's file; null at the end. Valid until `pop`. Fails:
  /// corrupt; as TraceReader.
  Result<const MemorySample*> peek();
  /// REQUIRES: there is one.
  void pop() { ++at_; }

 private:
  MergeSamples(const MergeSource& source, Rank rank, std::vector<std::int64_t> chunks)
      : source_(&source), rank_(rank), chunks_(std::move(chunks)) {}

  const MergeSource* source_;
  Rank rank_;
  std::vector<std::int64_t> chunks_;  // as the file calls them
  std::size_t next_ = 0;              // of them
  storage::MemorySeries series_;
  std::size_t at_ = 0;
  MemorySample sample_;
};

}  // namespace tessera::exchange
