// SPDX-License-Identifier: Apache-2.0
// The operations that a recording was told of, as far as packing spans needs them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/trace.h"

namespace tessera::storage {

struct KnownOp {
  std::int32_t id = 0, stream = 0, communicator = -1, step = 0;
  bool recorded = false, timed = false;
  std::uint32_t first_after = 0, after_count = 0;
  Time nominal = 0;  // about what it takes on any rank, once the last member is there
};

class KnownOps {
 public:
  /// -1: none. Ids ascend.
  std::int32_t last_id() const { return ops_.empty() ? -1 : ops_.back().id; }
  bool empty() const { return ops_.empty(); }

  void add(const TraceOp& op, bool recorded) {
    KnownOp known{op.id, op.stream, op.communicator, op.step, recorded};
    known.first_after = static_cast<std::uint32_t>(after_.size());
    if (recorded) after_.insert(after_.end(), op.after.begin(), op.after.end());
    known.after_count = static_cast<std::uint32_t>(after_.size()) - known.first_after;
    ops_.push_back(known);
  }
  /// Null: unknown.
  const KnownOp* find(std::int32_t id) const {
    if (!ops_.empty() && ops_.back().id == id) return &ops_.back();
    const auto found =
        std::lower_bound(ops_.begin(), ops_.end(), id,
                         [](const KnownOp& op, std::int32_t wanted) { return op.id < wanted; });
    return found == ops_.end() || found->id != id ? nullptr : &*found;
  }
  std::span<const std::int32_t> after(const KnownOp& op) const {
    return std::span(after_).subspan(op.first_after, op.after_count);
  }
  /// The first spans of an operation say how long it takes; ranks differ little. Nobody relies on
  /// it, so an impossible sum is as good as any.
  void time(const KnownOp& known, const SpanBatch& spans) {
    if (known.timed || spans.ranks.empty()) return;
    KnownOp& op = ops_[static_cast<std::size_t>(&known - ops_.data())];
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < spans.ranks.size(); ++i) {
      sum += static_cast<std::uint64_t>(spans.end[i]) - static_cast<std::uint64_t>(spans.ready[i]);
    }
    op.nominal = static_cast<Time>(sum) / std::ssize(spans.ranks);
    op.timed = true;
  }

 private:
  std::vector<KnownOp> ops_;
  std::vector<std::int32_t> after_;  // of all
};

}  // namespace tessera::storage
