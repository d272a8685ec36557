// SPDX-License-Identifier: Apache-2.0
// What `blocking` of a step counts, worked out from the chains of operations that a trace tells.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "tessera/runtime.h"
#include "tessera/trace.h"

namespace tessera::test {

/// Of every operation of a rank the end of the last collective that it is, or that it or an earlier
/// one of its stream waited for by way of copies; and of the compute stream's pauses the part up to
/// there.
class BlockingChains {
 public:
  /// In the order of submission.
  void add(std::int32_t op, std::int32_t stream, StreamRole role, Time begin, Time end,
           const std::vector<std::int32_t>& after) {
    Stream& own = streams_[stream];
    Time collective = role == StreamRole::compute ? 0 : own.collective;
    for (const std::int32_t waited : after) {
      const auto found = collective_of_.find(waited);
      if (found != collective_of_.end()) collective = std::max(collective, found->second);
    }
    if (role == StreamRole::compute) {
      paused_ += begin - own.end;
      blocking_ += std::max<Time>(0, std::min(collective, begin) - own.end);
      collective = 0;
    }
    if (role == StreamRole::communication) collective = end;
    own = {end, collective};
    collective_of_[op] = collective;
  }

  Time blocking() const { return blocking_; }
  Time paused() const { return paused_; }

 private:
  struct Stream {
    Time end = 0, collective = 0;
  };

  std::map<std::int32_t, Stream> streams_;
  std::map<std::int32_t, Time> collective_of_;
  Time blocking_ = 0, paused_ = 0;
};

}  // namespace tessera::test
