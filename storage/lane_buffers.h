// SPDX-License-Identifier: Apache-2.0
// Collects the entries of many lanes (a rank's stream, a rank's memory) until a lane has a chunk.
//
// The idea: when all lanes together hold too much, all are emptied, small chunks and all. Both
// limits count entries and never look at time or threads, so equal input makes equal chunks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "storage/chunk.h"
#include "tessera/assert.h"

namespace tessera::storage {

/// What a flush gives: a whole chunk, or a part of one that others follow.
struct GivenChunk {
  bool complete = true;
  std::int64_t parts = 0;  // given under the numbers behind a whole chunk's, which has them all
};

/// The entries from `first` on.
template <class Entry>
std::vector<Entry> tail_of(const std::vector<Entry>& run, std::size_t first) {
  return {run.begin() + static_cast<std::ptrdiff_t>(first), run.end()};
}

/// `Run`: a sequence of entries with `tail_of`.
template <class Entry, class Run = std::vector<Entry>>
class LaneBuffers {
 public:
  /// Called with rank, stream and seq set.
  using Flush = std::function<void(ChunkHeader&, const Run&, GivenChunk)>;

  /// Chunks have up to `count_max` entries. REQUIRES: entry ranks are in [0, ranks).
  LaneBuffers(std::int32_t ranks, std::size_t count_max, Flush flush)
      : ranks_(static_cast<std::size_t>(ranks)), count_max_(count_max), flush_(std::move(flush)) {}

  /// The lanes of one stream, for `add`. Valid until destruction.
  std::vector<std::int32_t>& lanes_of(std::int32_t stream) {
    std::vector<std::int32_t>& lanes = streams_[stream];
    if (lanes.empty()) lanes.assign(ranks_, -1);
    return lanes;
  }

  void add(std::vector<std::int32_t>& lanes, std::int32_t stream, Rank rank, const Entry& entry) {
    std::int32_t& index = lanes[static_cast<std::size_t>(rank)];
    if (index < 0) {
      index = static_cast<std::int32_t>(lanes_.size());
      lanes_.push_back({.rank = rank, .stream = stream, .entries = {}});
    }
    Lane& lane = lanes_[static_cast<std::size_t>(index)];
    if (lane.entries.size() == lane.room) grow(lane);
    lane.entries.push_back(entry);
    if (lane.entries.size() == count_max_) flush(lane);
  }

  /// Calls append(i, run) -> void for each of `ranks`, which are different ones, to add `count`
  /// entries; false, and nothing is done, if a lane is new, needs more room or ends a chunk by it.
  template <class Append>
  bool extend(const std::vector<std::int32_t>& lanes, std::span<const Rank> ranks,
              std::size_t count, Append append) {
    for (const Rank rank : ranks) {
      const std::int32_t index = lanes[static_cast<std::size_t>(rank)];
      if (index < 0) return false;
      const Lane& lane = lanes_[static_cast<std::size_t>(index)];
      const std::size_t size = lane.entries.size() + count;
      if (size > lane.room || size >= count_max_) return false;
    }
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const std::int32_t index = lanes[static_cast<std::size_t>(ranks[i])];
      append(i, lanes_[static_cast<std::size_t>(index)].entries);
    }
    return true;
  }

  /// Ends the rank's chunk if it has so many entries.
  void cut(const std::vector<std::int32_t>& lanes, Rank rank, std::size_t at_least) {
    const std::int32_t index = lanes[static_cast<std::size_t>(rank)];
    if (index < 0) return;
    Lane& lane = lanes_[static_cast<std::size_t>(index)];
    if (lane.entries.size() >= at_least) flush(lane);
  }

  /// Ends the chunks of all lanes that have so many entries.
  void cut_all(std::size_t at_least) {
    for (Lane& lane : lanes_) {
      if (lane.entries.size() >= at_least) flush(lane);
    }
  }

  /// Gives what lanes have got since they were last given, as parts under the number that their
  /// next chunk will have and those behind it. So each entry is given twice at most.
  void show_all() {
    for (Lane& lane : lanes_) {
      if (lane.entries.size() == lane.shown) continue;
      ChunkHeader header{lane.rank, lane.stream, lane.seq + lane.parts++};
      flush_(header, tail_of(lane.entries, lane.shown), {false, 0});
      lane.shown = lane.entries.size();
    }
  }

  /// Empties all lanes, ascending by rank and stream.
  void flush_all() {
    std::vector<Lane*> order;
    for (Lane& lane : lanes_) order.push_back(&lane);
    std::sort(order.begin(), order.end(), [](const Lane* a, const Lane* b) {
      return a->rank != b->rank ? a->rank < b->rank : a->stream < b->stream;
    });
    for (Lane* lane : order) {
      if (!lane->entries.empty()) flush(*lane);
      lane->entries = {};
      lane->room = 0;
    }
    room_ = 0;
  }

 private:
  struct Lane {
    Rank rank;
    std::int32_t stream;
    std::int64_t seq = 0;
    std::size_t shown = 0;   // entries that show_all gave
    std::int64_t parts = 0;  // in so many chunks
    std::size_t room = 0;    // entries that fit without growing; our own count, the same everywhere
    Run entries;
  };

  /// 64 MiB of entries.
  static constexpr std::size_t room_max = (64 << 20) / sizeof(Entry);

  void grow(Lane& lane) {
    const std::size_t room = std::max<std::size_t>(16, lane.room * 2);
    if (room_ + room - lane.room > room_max) flush_all();
    const std::size_t grown = std::max<std::size_t>(16, lane.room * 2);
    room_ += grown - lane.room;
    lane.room = grown;
    lane.entries.reserve(grown);
  }

  void flush(Lane& lane) {
    TESSERA_ASSERT(!lane.entries.empty() && lane.shown <= lane.entries.size(),
                   "a chunk has entries, those that were shown among them");
    ChunkHeader header{lane.rank, lane.stream, lane.seq++};
    flush_(header, lane.entries, {true, std::max<std::int64_t>(0, lane.parts - 1)});
    lane.entries.clear();
    lane.shown = 0;
    lane.parts = 0;
  }

  const std::size_t ranks_, count_max_;
  const Flush flush_;
  std::size_t room_ = 0;  // sum over lanes
  std::vector<Lane> lanes_;
  std::map<std::int32_t, std::vector<std::int32_t>> streams_;  // stream -> rank -> lane or -1
};

}  // namespace tessera::storage
