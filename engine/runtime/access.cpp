// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/access.h"

#include <algorithm>

namespace tessera {
namespace {

Access access(const View& view, bool write) {
  const std::int64_t size = size_of(view.dtype).value;
  return {view.buffer,
          view.first.value * size,
          view.numel.value * size,
          view.step.value * size,
          view.end.value * size,
          write};
}

// One side of a copy's pieces that go to or come from one buffer.
struct Blocks {
  Access first;
  std::int64_t count;
  std::int64_t pitch;
};

std::vector<Blocks> blocks_of(const Copy& copy, bool write) {
  std::vector<Blocks> blocks;
  for (const auto& piece : copy.pieces) {
    const View& view = write ? piece.to : piece.from;
    if (!view.buffer.valid()) continue;  // zeros
    const Numel pitch = write ? piece.to_pitch : piece.from_pitch;
    blocks.push_back({access(view, write), piece.count, bytes_of(pitch, view.dtype).value});
  }
  return blocks;
}

// Joins pieces that follow each other inside a pitch; a row of joined pieces as wide as the pitch
// is one contiguous range. What does not tile is described by its hull.
void append_joined(std::vector<Blocks> blocks, std::vector<Access>& out) {
  const auto before = [](const Blocks& a, const Blocks& b) {
    return a.first.buffer != b.first.buffer ? a.first.buffer < b.first.buffer
                                            : a.first.begin < b.first.begin;
  };
  if (!std::is_sorted(blocks.begin(), blocks.end(), before)) {
    std::stable_sort(blocks.begin(), blocks.end(), before);
  }
  for (std::size_t i = 0; i < blocks.size();) {
    Blocks joined = blocks[i++];
    while (i < blocks.size() && blocks[i].first.buffer == joined.first.buffer &&
           blocks[i].first.begin == joined.first.begin + joined.first.length &&
           blocks[i].first.step == joined.first.step && blocks[i].count == joined.count &&
           (blocks[i].pitch == joined.pitch || joined.count == 1)) {
      joined.first.length += blocks[i].first.length;
      joined.first.end = std::max(joined.first.end, blocks[i].first.end);
      ++i;
    }
    if (joined.count > 1) joined.first.length += (joined.count - 1) * joined.pitch;
    out.push_back(joined.first);
  }
}

struct Collector {
  std::vector<Access>& out;

  void operator()(const AllGather& o) { pair(o.input, o.output); }
  void operator()(const ReduceScatter& o) { pair(o.input, o.output); }
  void operator()(const AllReduce& o) { pair(o.input, o.output); }
  void operator()(const Reduce& o) { pair(o.input, o.output); }
  void operator()(const AllToAll& o) { pair(o.input, o.output); }
  void operator()(const Broadcast& o) { out.push_back(access(o.data, true)); }
  void operator()(const Copy& o) {
    append_joined(blocks_of(o, false), out);
    append_joined(blocks_of(o, true), out);
  }
  void operator()(const Compute& o) {
    for (const View& view : o.reads) out.push_back(access(view, false));
    for (const View& view : o.writes) out.push_back(access(view, true));
  }
  void operator()(const Wait&) {}
  void operator()(const Mark&) {}

  void pair(const View& input, const View& output) {
    out.push_back(access(input, false));
    out.push_back(access(output, true));
  }
};

// The range over all indices.
std::pair<std::int64_t, std::int64_t> hull(const Access& a) {
  return {a.begin, a.step == 0 ? a.end_at(0) : a.end};
}

}  // namespace

bool overlap(const Access& a, const Access& b) {
  if (a.buffer != b.buffer) return false;
  if (a.step == b.step) {
    return a.begin < b.begin + b.length && b.begin < a.begin + a.length;
  }
  const auto [a_begin, a_end] = hull(a);
  const auto [b_begin, b_end] = hull(b);
  return a_begin < b_end && b_begin < a_end;
}

bool contains(const Access& outer, const Access& inner) {
  if (outer.buffer != inner.buffer) return false;
  if (outer.step == inner.step) {
    return outer.begin <= inner.begin && inner.begin + inner.length <= outer.begin + outer.length &&
           inner.end <= outer.end;
  }
  const auto [begin, end] = hull(inner);
  return outer.step == 0 && outer.begin <= begin && end <= outer.end_at(0);
}

void list_accesses(const Op& op, std::vector<Access>& out) {
  out.clear();
  std::visit(Collector{out}, op.what);
}

std::vector<Access> accesses_of(const Op& op) {
  std::vector<Access> accesses;
  list_accesses(op, accesses);
  return accesses;
}

}  // namespace tessera
