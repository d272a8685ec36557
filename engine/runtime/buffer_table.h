// SPDX-License-Identifier: Apache-2.0
// Buffers by id, for as long as somebody may ask for them.
//
// The idea: a run allocates without end, so a buffer that is gone on all ranks is remembered for a
// while, for messages, and then forgotten.
#pragma once

#include <deque>
#include <utility>

#include "engine/values/id_table.h"
#include "tessera/types.h"

namespace tessera {

template <class Buffer>
class BufferTable {
 public:
  /// A buffer to be filled in; what it owns may be an earlier one's.
  std::pair<BufferId, Buffer&> add() {
    const BufferId id{next_++};
    return {id, known_.add(id)};
  }
  bool none_yet() const { return next_ == 0; }
  /// Null: there is no such buffer, or not any more.
  const Buffer* find(BufferId id) const { return known_.find(id); }
  /// REQUIRES: it is there.
  const Buffer& at(BufferId id) const { return known_.at(id); }
  /// No rank has it any more.
  void gone(BufferId id) {
    gone_.push_back(id);
    if (gone_.size() <= remembered) return;
    known_.erase(gone_.front());
    gone_.pop_front();
  }

 private:
  static constexpr std::size_t remembered = 256;

  std::int32_t next_ = 0;
  IdTable<BufferId, Buffer> known_;
  std::deque<BufferId> gone_;
};

}  // namespace tessera
