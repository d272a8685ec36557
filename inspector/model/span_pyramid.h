// SPDX-License-Identifier: Apache-2.0
// The spans of one lane at every zoom.
//
// The idea: levels of nodes over 8 spans, 64, 512, ...; a node knows its range, how long something
// runs in it and what mostly runs. A view visits the nodes that are about a pixel wide, so its cost
// follows the number of pixels, not of spans, and no span is ever lost.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "inspector/render/palette.h"
#include "tessera/types.h"

namespace tessera::inspector {

/// One pixel column of a lane.
struct LaneColumn {
  double busy = 0;                        // share of the column in which something runs, 0..1
  double wait = 0;                        // the part of `busy` in which it waits for other ranks
  OpClass dominant = OpClass::optimizer;  // what runs longest in it
};

class SpanPyramid {
 public:
  /// Spans in ascending order of begin that do not overlap, with the class of each. A span waits
  /// from its begin until it is ready.
  SpanPyramid(const std::vector<Time>& begin, const std::vector<Time>& ready,
              const std::vector<Time>& end, std::vector<OpClass> classes);
  /// Sums over several spans each, in ascending order, where single ones are not known: `columns`
  /// hands out none, and `size` is 0.
  struct Node {
    Time t0, t1, busy, wait;
    OpClass dominant;
  };
  explicit SpanPyramid(std::vector<Node> nodes);

  std::size_t size() const { return classes_.size(); }
  Time begin(std::size_t i) const { return (*begin_)[i]; }
  Time end(std::size_t i) const { return (*end_)[i]; }
  OpClass op_class(std::size_t i) const { return classes_[i]; }

  /// The first span that ends after `time`; size() if none.
  std::size_t first_ending_after(Time time) const;
  /// ns in [from, to) in which a span runs.
  Time busy(Time from, Time to) const;

  /// Draws [from, to) on `columns` pixels: spans at least `wide_px` wide are handed to `wide`, all
  /// others are merged into the result. Returns columns; `visited` counts nodes and spans touched.
  std::vector<LaneColumn> columns(Time from, Time to, int columns, double wide_px,
                                  const std::function<void(std::size_t)>& wide,
                                  std::int64_t* visited = nullptr) const;

 private:
  struct Painter;
  void add_levels();
  void paint(Painter& painter, std::size_t level, std::size_t index) const;
  Time busy_in(std::size_t level, std::size_t index, Time from, Time to) const;
  std::size_t children_end(std::size_t level, std::size_t index) const;

  Time wait(std::size_t i) const { return (*ready_)[i] - (*begin_)[i]; }
  Node leaf(std::size_t i) const {
    return {begin(i), end(i), end(i) - begin(i), wait(i), op_class(i)};
  }
  void add_span(Painter& painter, std::size_t i) const;

  const std::vector<Time>* begin_ = nullptr;
  const std::vector<Time>* ready_ = nullptr;
  const std::vector<Time>* end_ = nullptr;
  std::vector<OpClass> classes_;
  std::vector<std::vector<Node>> levels_;  // levels_[0] over 8 spans each, and so on, or given
};

}  // namespace tessera::inspector
