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

// Blocks that do not tile stay blocks; where ranks have different ones, too, their hull is meant.
Access all_of(const Blocks& blocks) {
  Access all = blocks.first;
  if (blocks.count == 1) return all;
  const std::int64_t whole = all.length + (blocks.count - 1) * blocks.pitch;
  if (all.step == 0 && all.length < blocks.pitch) {
    all.pitch = blocks.pitch;
    all.end = std::min(all.end, all.begin + whole);
  } else {
    all.length = whole;
  }
  return all;
}

std::vector<Blocks> blocks_of(const Copy& copy, bool write) {
  std::vector<Blocks> blocks;
  blocks.reserve(copy.pieces.size());
  for (const auto& piece : copy.pieces) {
    const View& view = write ? piece.to : piece.from;
    if (!view.buffer.valid()) continue;  // zeros
    const Numel pitch = write ? piece.to_pitch : piece.from_pitch;
    blocks.push_back({access(view, write), piece.count, bytes_of(pitch, view.dtype).value});
  }
  return blocks;
}

// Joins pieces that follow each other inside a pitch; a row of joined pieces as wide as the pitch
// is one contiguous range.
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
    out.push_back(all_of(joined));
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

// a modulo b, never negative.
std::int64_t modulo(std::int64_t a, std::int64_t b) { return (a % b + b) % b; }

// Behind the last byte of what has a period.
std::int64_t last_end(const Access& a) {
  const std::int64_t last = std::max<std::int64_t>(0, a.end - 1 - a.begin) / a.period();
  return a.end_at(static_cast<Index>(last));
}

// The blocks of `a` touch those of `b`, or the range that these lie in if they are otherwise apart.
bool meets(const Access& a, const Access& b) {
  const std::int64_t period = a.period();
  if (period == 0) return true;
  const std::int64_t length = b.period() == period ? b.length : b.hull_end() - b.begin;
  const std::int64_t apart = modulo(b.begin - a.begin, period);
  return apart < a.length || period - apart < length;
}

bool alike(const Access& a, const Access& b) {
  return a.step == b.step && a.pitch == 0 && b.pitch == 0;
}

}  // namespace

bool overlap(const Access& a, const Access& b) {
  if (a.buffer != b.buffer) return false;
  if (alike(a, b)) return a.begin < b.begin + b.length && b.begin < a.begin + a.length;
  if (a.begin >= b.hull_end() || b.begin >= a.hull_end()) return false;
  return meets(a, b) && meets(b, a);
}

bool contains(const Access& outer, const Access& inner) {
  if (outer.buffer != inner.buffer) return false;
  if (alike(outer, inner)) {
    return outer.begin <= inner.begin && inner.begin + inner.length <= outer.begin + outer.length &&
           inner.end <= outer.end;
  }
  if (outer.step != 0 || inner.begin < outer.begin) return false;
  if (outer.period() == 0) return inner.hull_end() <= outer.hull_end();
  const bool periodic = inner.period() == outer.period();
  if (!periodic && inner.period() != 0) return false;
  const std::int64_t length = periodic ? inner.length : inner.hull_end() - inner.begin;
  const std::int64_t end = periodic ? last_end(inner) : inner.hull_end();
  return (inner.begin - outer.begin) % outer.pitch + length <= outer.length &&
         end <= last_end(outer);
}

std::int64_t reach(const Access& a, Index index, std::int64_t at) {
  const Index block = a.period() > 0 && a.pitch > 0 && at >= a.begin
                          ? static_cast<Index>((at - a.begin) / a.pitch)
                          : index;
  return a.begin_at(block) <= at && at < a.end_at(block) ? a.end_at(block) : at;
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
