// SPDX-License-Identifier: Apache-2.0
#include "storage/span_lanes.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/assert.h"

namespace tessera::storage {

SpanLanes::SpanLanes(std::int32_t ranks, std::size_t count_max, RecentEdges* edges, Flush flush)
    : edges_(edges),
      lanes_(ranks, count_max, std::move(flush)),
      of_rank_(lanes_.lanes_of(all_streams)) {}

bool SpanLanes::same_ranks(std::span<const Rank> ranks) const {
  return std::equal(ranks.begin(), ranks.end(), ranks_.begin(), ranks_.end());
}

void SpanLanes::start(std::span<const Rank> ranks) {
  settle();
  ranks_.assign(ranks.begin(), ranks.end());
  ascending_ =
      std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  for (auto* times : {&begin_, &ready_, &end_}) times->resize(rows_max * ranks_.size());
}

void SpanLanes::add(const SpanBatch& spans) {
  if (!same_ranks(spans.ranks)) start(spans.ranks);
  TESSERA_ASSERT(rows_ < rows_max, "rows that are full were settled");
  const auto to = static_cast<std::ptrdiff_t>(rows_ * ranks_.size());
  std::copy(spans.begin.begin(), spans.begin.end(), begin_.begin() + to);
  std::copy(spans.ready.begin(), spans.ready.end(), ready_.begin() + to);
  std::copy(spans.end.begin(), spans.end.end(), end_.begin() + to);
  ops_[rows_++] = spans.op;
  if (rows_ == rows_max) settle();
}

void SpanLanes::append(std::size_t i, SpanRun& run) const {
  const std::size_t n = ranks_.size();
  const SpanRun::Place to = run.extend(rows_);
  std::copy_n(ops_, rows_, to.op);
  for (std::size_t row = 0, at = i; row < rows_; ++row, at += n) {
    to.begin[row] = begin_[at];
    to.ready[row] = ready_[at];
    to.end[row] = end_[at];
  }
}

void SpanLanes::settle() {
  if (rows_ == 0) return;
  const bool all =
      ascending_ && lanes_.extend(of_rank_, ranks_, rows_,
                                  [this](std::size_t i, SpanRun& run) { append(i, run); });
  for (std::size_t row = 0; row < rows_ && !all; ++row) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      lanes_.add(of_rank_, all_streams, ranks_[i], at(row, i));
    }
  }
  for (std::size_t i = 0; i < ranks_.size() && edges_ != nullptr; ++i) {
    for (std::size_t row = 0; row < rows_; ++row) edges_->add(ranks_[i], at(row, i));
  }
  rows_ = 0;
}

void SpanLanes::cut_all(std::size_t at_least) {
  settle();
  lanes_.cut_all(at_least);
}

void SpanLanes::show_all() {
  settle();
  lanes_.show_all();
}

void SpanLanes::flush_all() {
  settle();
  lanes_.flush_all();
}

}  // namespace tessera::storage
