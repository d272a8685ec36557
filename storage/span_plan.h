// SPDX-License-Identifier: Apache-2.0
// What the spans of a chunk are on every rank: which operations, on which streams, what each waits
// for and about how long it takes.
//
// The idea: an operation begins when its stream is free and what it waits for is over. So a begin
// follows from ends that are in the chunk already, and what remains of a span is how much longer
// or shorter it took than on other ranks.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "storage/chunk.h"
#include "storage/encoding.h"
#include "storage/known_ops.h"

namespace tessera::storage {

class SpanPlan {
 public:
  /// Places of spans in the chunk, ascending.
  struct OfStream {
    std::int32_t stream = 0;
    std::vector<std::uint16_t> places;
  };

  SpanPlan() = default;
  /// Of these operations, in their order. REQUIRES: `ops` has them.
  SpanPlan(std::span<const std::int32_t> spans, const KnownOps& ops);

  /// Appends its columns.
  void append_to(std::vector<std::uint8_t>& data) const;
  /// Null, or why the next columns are no plan of `count` spans.
  const char* read(ColumnReader& reader, std::size_t count);

  /// Whether they are the same but for the ids of operations, which one has shifted by a number,
  /// and for their times.
  bool same_shape(const SpanPlan& other) const;

  std::size_t size() const { return ops_.size(); }
  const std::vector<std::int32_t>& ops() const { return ops_; }
  /// The least and the largest id.
  std::pair<std::int64_t, std::int64_t> op_range() const { return op_range_; }
  std::int32_t stream(std::size_t i) const { return static_cast<std::int32_t>(stream_[i]); }
  /// Whether ranks wait for one another in it.
  bool meets(std::size_t i) const { return meets_[i] != 0; }
  Time nominal(std::size_t i) const { return nominal_[i]; }
  /// 1 for each that meets, else 0, and the time of each.
  std::span<const std::int64_t> meeting() const { return meets_; }
  std::span<const Time> nominals() const { return nominal_; }
  /// The latest end of what span `i` waits for, as far as it is in the chunk, where all spans
  /// before it are known; else `otherwise`.
  Time begin_of(std::size_t i, std::span<const Time> ends, Time otherwise) const {
    const std::uint32_t from = first_[i], to = first_[i + 1];
    if (from == to) return otherwise;
    Time latest = ends[before_[from]];
    for (std::uint32_t k = from + 1; k < to; ++k) {
      const Time end = ends[before_[k]];
      latest = end > latest ? end : latest;
    }
    return latest;
  }
  /// In the order in which they are used first.
  const std::vector<OfStream>& by_stream() const { return by_stream_; }
  /// Places of spans in the chunk by their nominal time, in which like ones are neighbours.
  const std::vector<std::uint16_t>& by_nominal() const { return by_nominal_; }

 private:
  /// Finds what follows from the columns; null, or what contradicts itself.
  const char* derive();

  // As in the file.
  std::vector<std::int64_t> op_steps_, stream_, meets_, nominal_;
  std::vector<std::int64_t> waits_, distances_;
  // What follows.
  std::vector<std::int32_t> ops_;
  std::pair<std::int64_t, std::int64_t> op_range_;
  std::vector<std::uint32_t> first_;   // of each span in before_, and one more for the end
  std::vector<std::uint16_t> before_;  // places of what each span waits for
  std::vector<std::uint16_t> by_nominal_;
  std::vector<OfStream> by_stream_;
};

}  // namespace tessera::storage
