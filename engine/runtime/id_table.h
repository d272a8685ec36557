// SPDX-License-Identifier: Apache-2.0
// Values by ids that ascend: for tables that are asked for every view of every operation.
//
// The idea: a new id goes to the end, and a value that goes leaves a gap; when half of all are
// gaps, they are closed. So nothing is searched in trees, and what is there stays in order.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/assert.h"

namespace tessera {

template <class Id, class Value>
class IdTable {
 public:
  /// REQUIRES: larger than all ids so far.
  Value& add(Id id, Value value) {
    TESSERA_ASSERT(ids_.empty() || ids_.back() < id, "ids ascend");
    ids_.push_back(id);
    slots_.push_back({std::move(value), true});
    return slots_.back().value;
  }
  /// Null: there is none, or not any more. Valid until something is added or erased.
  Value* find(Id id) {
    const std::size_t k = place(id);
    return k < ids_.size() && slots_[k].there ? &slots_[k].value : nullptr;
  }
  const Value* find(Id id) const { return const_cast<IdTable*>(this)->find(id); }
  /// REQUIRES: it is there.
  const Value& at(Id id) const {
    const Value* value = find(id);
    TESSERA_ASSERT(value != nullptr, "an id that is there");
    return *value;
  }
  void erase(Id id) {
    const std::size_t k = place(id);
    if (k == ids_.size() || !slots_[k].there) return;
    slots_[k] = {Value{}, false};
    if (++gaps_ > 16 && gaps_ > ids_.size() / 2) close_gaps();
  }
  /// f(id, value) in the order of ids, until it returns true. Returns whether it did.
  template <class F>
  bool any_of(F&& f) const {
    for (std::size_t k = 0; k < ids_.size(); ++k) {
      if (slots_[k].there && f(ids_[k], slots_[k].value)) return true;
    }
    return false;
  }

 private:
  struct Slot {
    Value value;
    bool there = false;
  };

  // Of `id`, or ids_.size().
  std::size_t place(Id id) const {
    std::size_t first = 0;
    std::size_t count = ids_.size();
    const Id* const ids = ids_.data();
    while (count > 0) {
      const std::size_t half = count / 2;
      const bool after = ids[first + half].value < id.value;
      first = after ? first + half + 1 : first;
      count = after ? count - half - 1 : half;
    }
    return first < ids_.size() && ids[first] == id ? first : ids_.size();
  }

  void close_gaps() {
    std::size_t to = 0;
    for (std::size_t k = 0; k < ids_.size(); ++k) {
      if (!slots_[k].there) continue;
      if (to != k) {
        ids_[to] = ids_[k];
        slots_[to] = std::move(slots_[k]);
      }
      ++to;
    }
    ids_.resize(to);
    slots_.erase(slots_.begin() + static_cast<std::ptrdiff_t>(to), slots_.end());
    gaps_ = 0;
  }

  std::vector<Id> ids_;  // ascending
  std::vector<Slot> slots_;
  std::size_t gaps_ = 0;
};

}  // namespace tessera
