// SPDX-License-Identifier: Apache-2.0
// Takes the spans of operations, all ranks at once, and collects them by rank.
//
// The idea: a few operations of the same ranks are kept as they come, and then each rank gets its
// part of all of them, in a row. So memory is written by whole lines of its cache, not by single
// numbers of many ranks.
#pragma once

#include <vector>

#include "storage/lane_buffers.h"
#include "storage/recent_edges.h"
#include "storage/span_run.h"

namespace tessera::storage {

class SpanLanes {
 public:
  using Flush = LaneBuffers<SpanEntry, SpanRun>::Flush;

  /// `edges` remembers all spans; null: nobody does.
  SpanLanes(std::int32_t ranks, std::size_t count_max, RecentEdges* edges, Flush flush);

  /// Whether the last spans were of the same ranks.
  bool same_ranks(std::span<const Rank> ranks) const;
  /// REQUIRES: ranks of the run.
  void add(const SpanBatch& spans);
  /// After it `edges` and lanes have all that was added. Everything below does so itself.
  void settle();

  /// As LaneBuffers does it.
  void cut_all(std::size_t at_least);
  void show_all();
  void flush_all();

 private:
  static constexpr std::size_t rows_max = 8;  // times of a rank fill a line of the cache

  void start(std::span<const Rank> ranks);
  SpanEntry at(std::size_t row, std::size_t i) const {
    const std::size_t place = row * ranks_.size() + i;
    return {ops_[row], begin_[place], ready_[place], end_[place]};
  }
  void append(std::size_t i, SpanRun& run) const;

  RecentEdges* const edges_;
  LaneBuffers<SpanEntry, SpanRun> lanes_;
  std::vector<std::int32_t>& of_rank_;  // all lanes

  // Operations whose spans are in no lane yet.
  std::vector<Rank> ranks_;
  bool ascending_ = false;  // nobody is among them twice
  std::size_t rows_ = 0;
  std::int32_t ops_[rows_max] = {};
  std::vector<Time> begin_, ready_, end_;  // [row * ranks + i]
};

}  // namespace tessera::storage
