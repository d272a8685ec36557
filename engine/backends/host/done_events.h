// SPDX-License-Identifier: Apache-2.0
// The set of events that have happened. Its size does not grow with the run: all events before the
// oldest pending one are a single number.
#pragma once

#include <deque>

#include "tessera/assert.h"
#include "tessera/types.h"

namespace tessera {

class DoneEvents {
 public:
  /// Adds the next event in the order of ids.
  void add(bool done) {
    done_.push_back(done);
    advance();
  }
  void happen(EventId event) {
    TESSERA_ASSERT(!happened(event), "an event happens once");
    done_[static_cast<std::size_t>(event.value - first_)] = true;
    advance();
  }
  bool happened(EventId event) const {
    if (event.value < first_) return true;
    const auto place = static_cast<std::size_t>(event.value - first_);
    TESSERA_ASSERT(place < done_.size(), "who asks for an event has submitted it");
    return done_[place];
  }

 private:
  void advance() {
    while (!done_.empty() && done_.front()) {
      done_.pop_front();
      ++first_;
    }
  }

  std::deque<bool> done_;  // of event first_ and those after it
  std::int32_t first_ = 0;
};

}  // namespace tessera
