// SPDX-License-Identifier: Apache-2.0
// The byte ranges of buffers that an operation reads and writes.
#pragma once

#include <vector>

#include "tessera/op.h"

namespace tessera {

/// Bytes [begin + step * i, begin + step * i + length) cut at `end`, i = index in the group.
struct Access {
  BufferId buffer;
  std::int64_t begin = 0;
  std::int64_t length = 0;
  std::int64_t step = 0;
  std::int64_t end = 0;
  bool write = false;

  std::int64_t begin_at(Index i) const { return std::min(begin + step * i, end); }
  std::int64_t end_at(Index i) const { return std::min(begin + step * i + length, end); }
};

/// `a` and `b` may touch the same byte on some rank.
bool overlap(const Access& a, const Access& b);
/// Every byte of `inner` is in `outer`, on every rank.
bool contains(const Access& outer, const Access& inner);

/// All accesses of `op`. Pieces of a copy that tile a range are joined into one.
std::vector<Access> accesses_of(const Op& op);
/// Replaces the contents of `out` by the same list.
void list_accesses(const Op& op, std::vector<Access>& out);

}  // namespace tessera
