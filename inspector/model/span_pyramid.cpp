// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/span_pyramid.h"

#include <algorithm>
#include <array>

#include "tessera/assert.h"

namespace tessera::inspector {
namespace {

constexpr std::size_t span_fan = 8;

}  // namespace

struct SpanPyramid::Painter {
  double from;
  double ns_per_px;
  double wide_px;
  Time begin, end;
  const std::function<void(std::size_t)>& wide;
  std::vector<LaneColumn>& out;
  std::vector<double> most;  // ns of the dominant class so far, by column
  std::int64_t visited = 0;

  // Adds `busy` ns of a class, `waiting` of them in wait, spread evenly over [t0, t1).
  void add(Time t0, Time t1, Time busy, Time waiting, OpClass op_class) {
    const Time clipped0 = std::max(t0, begin);
    const Time clipped1 = std::min(t1, end);
    if (clipped1 <= clipped0) return;
    const double density = static_cast<double>(busy) / static_cast<double>(t1 - t0);
    const double idle_share =
        busy > 0 ? static_cast<double>(waiting) / static_cast<double>(busy) : 0;
    const double x0 = (static_cast<double>(clipped0) - from) / ns_per_px;
    const double x1 = (static_cast<double>(clipped1) - from) / ns_per_px;
    const auto last = static_cast<std::ptrdiff_t>(out.size()) - 1;
    for (auto c = std::clamp<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(x0), 0, last); c <= last;
         ++c) {
      const double left = std::max(x0, static_cast<double>(c));
      const double right = std::min(x1, static_cast<double>(c + 1));
      if (right <= left) break;
      LaneColumn& column = out[static_cast<std::size_t>(c)];
      const double share = (right - left) * density;
      column.busy = std::min(1.0, column.busy + share);
      column.wait = std::min(column.busy, column.wait + share * idle_share);
      if (share > most[static_cast<std::size_t>(c)]) {
        most[static_cast<std::size_t>(c)] = share;
        column.dominant = op_class;
      }
    }
  }
};

SpanPyramid::SpanPyramid(const std::vector<Time>& begin, const std::vector<Time>& ready,
                         const std::vector<Time>& end, std::vector<OpClass> classes)
    : begin_(&begin), ready_(&ready), end_(&end), classes_(std::move(classes)) {
  TESSERA_ASSERT(begin.size() == classes_.size() && ready.size() == classes_.size() &&
                     end.size() == classes_.size(),
                 "a lane's columns have one length");
  add_levels();
}

SpanPyramid::SpanPyramid(std::vector<Node> nodes) {
  if (nodes.empty()) return;
  levels_.push_back(std::move(nodes));
  add_levels();
}

void SpanPyramid::add_levels() {
  std::size_t below = levels_.empty() ? classes_.size() : levels_.back().size();
  while (below > 1) {
    std::vector<Node> level((below + span_fan - 1) / span_fan);
    const std::size_t depth = levels_.size();
    for (std::size_t n = 0; n < level.size(); ++n) {
      std::array<Time, op_class_count> by_class{};
      Node node{0, 0, 0, 0, OpClass::optimizer};
      for (std::size_t k = n * span_fan; k < std::min(below, (n + 1) * span_fan); ++k) {
        const Node child = depth == 0 ? leaf(k) : levels_[depth - 1][k];
        if (k == n * span_fan) node.t0 = child.t0;
        node.t1 = std::max(node.t1, child.t1);
        node.busy += child.busy;
        node.wait += child.wait;
        by_class[static_cast<std::size_t>(child.dominant)] += child.busy;
      }
      const auto most = std::max_element(by_class.begin(), by_class.end());
      node.dominant = static_cast<OpClass>(most - by_class.begin());
      level[n] = node;
    }
    below = level.size();
    levels_.push_back(std::move(level));
  }
}

std::size_t SpanPyramid::first_ending_after(Time time) const {
  if (end_ == nullptr) return 0;
  return static_cast<std::size_t>(std::upper_bound(end_->begin(), end_->end(), time) -
                                  end_->begin());
}

std::size_t SpanPyramid::children_end(std::size_t level, std::size_t index) const {
  const std::size_t below = level == 0 ? size() : levels_[level - 1].size();
  return std::min(below, (index + 1) * span_fan);
}

Time SpanPyramid::busy_in(std::size_t level, std::size_t index, Time from, Time to) const {
  const Node& node = levels_[level][index];
  if (node.t1 <= from || to <= node.t0) return 0;
  if (from <= node.t0 && node.t1 <= to) return node.busy;
  Time sum = 0;
  for (std::size_t k = index * span_fan; k < children_end(level, index); ++k) {
    sum += level == 0 ? std::max<Time>(0, std::min(to, end(k)) - std::max(from, begin(k)))
                      : busy_in(level - 1, k, from, to);
  }
  return sum;
}

Time SpanPyramid::busy(Time from, Time to) const {
  if (size() == 0) return 0;  // or single ones are not known
  if (levels_.empty()) return std::max<Time>(0, std::min(to, end(0)) - std::max(from, begin(0)));
  return busy_in(levels_.size() - 1, 0, from, to);
}

void SpanPyramid::add_span(Painter& p, std::size_t i) const {
  const Time ready = begin(i) + wait(i);
  if (ready > begin(i)) p.add(begin(i), ready, wait(i), wait(i), op_class(i));
  if (end(i) > ready) p.add(ready, end(i), end(i) - ready, 0, op_class(i));
}

void SpanPyramid::paint(Painter& p, std::size_t level, std::size_t index) const {
  const Node& node = levels_[level][index];
  if (node.t1 <= p.begin || p.end <= node.t0) return;
  ++p.visited;
  // Exact in its column only if the node does not cross into the next one.
  const double x0 = (static_cast<double>(node.t0) - p.from) / p.ns_per_px;
  const double x1 = (static_cast<double>(node.t1) - p.from) / p.ns_per_px;
  const bool in_one_column = static_cast<std::int64_t>(x0) == static_cast<std::int64_t>(x1);
  if ((x0 >= 0 && in_one_column) || (level == 0 && begin_ == nullptr)) {
    p.add(node.t0, node.t1, node.busy, node.wait, node.dominant);
    return;
  }
  for (std::size_t k = index * span_fan; k < children_end(level, index); ++k) {
    if (level > 0) {
      paint(p, level - 1, k);
      continue;
    }
    if (end(k) <= p.begin || p.end <= begin(k)) continue;
    ++p.visited;
    if (static_cast<double>(end(k) - begin(k)) >= p.wide_px * p.ns_per_px) {
      p.wide(k);
    } else {
      add_span(p, k);
    }
  }
}

std::vector<LaneColumn> SpanPyramid::columns(Time from, Time to, int columns, double wide_px,
                                             const std::function<void(std::size_t)>& wide,
                                             std::int64_t* visited) const {
  std::vector<LaneColumn> out(static_cast<std::size_t>(std::max(columns, 0)));
  if (out.empty() || to <= from || (size() == 0 && levels_.empty())) return out;
  Painter painter{static_cast<double>(from),
                  static_cast<double>(to - from) / columns,
                  wide_px,
                  from,
                  to,
                  wide,
                  out,
                  std::vector<double>(out.size(), 0)};
  if (levels_.empty()) {
    if (begin(0) < to && from < end(0)) {
      static_cast<double>(end(0) - begin(0)) >= wide_px* painter.ns_per_px ? wide(0)
                                                                           : add_span(painter, 0);
    }
  } else {
    paint(painter, levels_.size() - 1, 0);
  }
  if (visited != nullptr) *visited += painter.visited;
  return out;
}

}  // namespace tessera::inspector
