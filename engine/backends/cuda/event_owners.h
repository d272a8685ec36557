// SPDX-License-Identifier: Apache-2.0
// The stream on which each event was recorded. Events that are over are forgotten, so that its size
// does not grow with the run.
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

  /// Adds the next event. An invalid `stream` means that it belongs to other ranks only.
  Status add(StreamId stream);
  /// The stream of `event`; null if it is over or belongs to other ranks only.
  Lane* of(EventId event) const;
  /// The number of events that are remembered.
  std::size_t size() const { return owners_.size(); }

 private:
  void forget();

  const Lanes& lanes_;
  std::deque<std::int8_t> owners_;  // of event first_ and those after it; -1: no stream
  std::int32_t first_ = 0;
  std::size_t check_at_ = 4096;  // the number of owners at which all streams are queried
};

}  // namespace tessera
