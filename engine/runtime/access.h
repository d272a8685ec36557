// SPDX-License-Identifier: Apache-2.0
// The byte ranges of buffers that an operation reads and writes.
#pragma once

#include <vector>

#include "tessera/op.h"

namespace tessera {

/// Bytes [begin + step * i, begin + step * i + length) cut at `end`, i = index in the group; or,
/// with a pitch, as many such blocks on every rank, a pitch apart, as begin before `end`.
struct Access {
  BufferId buffer;
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t step = 0;  // 0 with a pitch
  std::int64_t end = 0;
  bool write = false;
  std::int64_t pitch = 0;  // 0: one block

  /// Of index i or block i.
  std::int64_t begin_at(Index i) const { return std::min(begin + (step + pitch) * i, end); }
  std::int64_t end_at(Index i) const { return std::min(begin + (step + pitch) * i + length, end); }
  /// How far apart are all bytes that it touches at any index; 0: they are one range.
  std::int64_t period() const { return length < step + pitch ? step + pitch : 0; }
  /// Behind the last byte that it touches at any index.
  std::int64_t hull_end() const { return step + pitch == 0 ? end_at(0) : end; }
  std::int64_t blocks() const { return pitch == 0 ? 1 : (end - begin + pitch - 1) / pitch; }
};

/// `a` and `b` may touch the same byte on some rank.
bool overlap(const Access& a, const Access& b);
/// Every byte of `inner` is in `outer`, on every rank.
bool contains(const Access& outer, const Access& inner);
/// How far `a` reaches without a gap from byte `at` on, at one index; `at` if that is not in it.
std::int64_t reach(const Access& a, Index index, std::int64_t at);

/// All accesses of `op`. Pieces of a copy that tile a range are joined into one.
std::vector<Access> accesses_of(const Op& op);
/// Replaces the contents of `out` by the same list.
void list_accesses(const Op& op, std::vector<Access>& out);

}  // namespace tessera
