// SPDX-License-Identifier: Apache-2.0
// The memory samples of one rank, a stretch of time after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "exchange/import/merge_sources.h"

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
  MergeSamples(const MergeSource& source, Rank rank, std::vector<Time> begins)
      : source_(&source), rank_(rank), begins_(std::move(begins)) {}

  const MergeSource* source_;
  Rank rank_;
  std::vector<Time> begins_;  // of stretches
  std::size_t next_ = 0;      // stretch
  storage::MemorySeries series_;
  std::size_t at_ = 0;
  MemorySample sample_;
};

}  // namespace tessera::exchange
