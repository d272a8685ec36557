// SPDX-License-Identifier: Apache-2.0
// The happens-before check of one buffer: every access must be ordered, by recorded waits, after
// the accesses it depends on.
//
// The idea: keep only accesses that a later one could still race with. An access that a later write
// covers is forgotten, since that write was itself ordered after it.
#pragma once

#include <string>
#include <vector>

#include "engine/runtime/access.h"
#include "engine/runtime/stream_order.h"

namespace tessera {

/// Who made an access, for messages.
struct Accessor {
  OpKind kind = OpKind::compute;
  Cause cause;
  EventId event;
  std::string to_string() const;  // "all_gather of unit model.layers.3"
};

class AccessHistory {
 public:
  /// Checks `access` by an op of `stream` before it is recorded. `group_size` is the range of its
  /// indices. Returns "" or what is wrong, as the end of a sentence about the new access.
  std::string check(const Access& access, StreamId stream, Index group_size,
                    const StreamOrder& order) const;
  void record(const Access& access, Position position, const Accessor& accessor);

  /// As a new buffer's.
  void clear() { records_.clear(); }

  /// The first access that is not over when `event` happens (none: that any op is still owed), or
  /// nullptr.
  const Accessor* not_before(EventId event, const StreamOrder& order) const;
  /// The last collective whose result nobody read, or nullptr.
  const Accessor* unread_collective() const;

 private:
  struct Record {
    Access access;
    Position position;
    Accessor accessor;
    bool read_since = false;  // writes: somebody read it
  };

  bool initialised(const Access& read, Index index) const;

  std::vector<Record> records_;
};

}  // namespace tessera
