// SPDX-License-Identifier: Apache-2.0
// Pieces of memory that a stream may use once its clock has reached what they wait for.
//
// The idea: a piece is asked again only when the stream has reached the one position that it was
// seen to lack. So a piece is asked once per stream that it waits for, however often the stream
// allocates in between.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "engine/runtime/stream_order.h"

namespace tessera {

class ReleasedPieces {
 public:
  /// A piece during one of its turns as free memory.
  struct Waiting {
    std::int32_t piece = -1;
    std::uint32_t turn = 0;
  };

  void add(Waiting waiting) { fresh_.push_back(waiting); }
  /// Forgets all.
  void clear() {
    fresh_.clear();
    for (auto& lacking : lacking_) lacking.clear();
    some_ = 0;
    count_ = 0;
  }
  std::size_t size() const { return fresh_.size() + count_; }
  /// Whether some have not been asked yet.
  bool has_fresh() const { return !fresh_.empty(); }

  /// missing(waiting) for each whose time may have come with `clock`. It returns the stream that
  /// has not got far enough for it in `clock`, with the count that it waits for, or a position of
  /// stream -1: the piece has been seen to, and is forgotten.
  template <class F>
  void reach(const StreamClock& clock, F&& missing) {
    std::swap(fresh_, asked_);
    for (std::uint32_t left = some_; left != 0; left &= left - 1) {
      const auto s = static_cast<std::size_t>(std::countr_zero(left));
      auto& heap = lacking_[s];
      while (!heap.empty() && heap.front().count <= clock[s]) {
        std::pop_heap(heap.begin(), heap.end(), later);
        asked_.push_back(heap.back().waiting);
        heap.pop_back();
        --count_;
      }
      if (heap.empty()) some_ &= ~(std::uint32_t{1} << s);
    }
    for (const Waiting& waiting : asked_) {
      const Position position = missing(waiting);
      if (position.stream < 0) continue;
      auto& heap = lacking_[static_cast<std::size_t>(position.stream)];
      heap.push_back({position.count, waiting});
      std::push_heap(heap.begin(), heap.end(), later);
      some_ |= std::uint32_t{1} << position.stream;
      ++count_;
    }
    asked_.clear();
  }

 private:
  struct Lacking {
    std::uint32_t count;
    Waiting waiting;
  };
  static bool later(const Lacking& a, const Lacking& b) { return a.count > b.count; }

  std::vector<Waiting> fresh_, asked_;
  std::array<std::vector<Lacking>, stream_count_max> lacking_;  // heaps by stream, earliest first
  std::uint32_t some_ = 0;                                      // bits of those with some
  std::size_t count_ = 0;                                       // in them
};

}  // namespace tessera
