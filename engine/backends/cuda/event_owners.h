// SPDX-License-Identifier: Apache-2.0
// Which stream an event is of, for runs without end: what is over is forgotten.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/backends/cuda/lane.h"

namespace tessera {

class EventOwners {
 public:
  using Lanes = std::vector<std::unique_ptr<Lane>>;
  /// `lanes`, by StreamId, may still grow and must outlive this.
  explicit EventOwners(const Lanes& lanes) : lanes_(lanes) {}

  /// The next event. No stream: it is of other ranks only.
  Status add(StreamId stream);
  /// Null: it is over, or of other ranks only.
  Lane* of(EventId event) const;
  /// Events that are remembered.
  std::size_t size() const { return owners_.size(); }

 private:
  void forget();

  const Lanes& lanes_;
  std::deque<std::int8_t> owners_;  // of event first_ and those after it; -1: no stream
  std::int32_t first_ = 0;
  std::size_t look_at_ = 4096;  // owners: then all streams are looked at
};

}  // namespace tessera
