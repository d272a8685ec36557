// SPDX-License-Identifier: Apache-2.0
// Values by ids that ascend: for tables that are asked for every view of every operation.
//
// The idea: a hash table whose entries are places in an array of values. Both are as large as the
// most values there were at once, and the values of erased ids are used again, with what they own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/assert.h"

namespace tessera {

/// A value with a member `clear()` keeps its memory when its id is erased; others are replaced by
/// Value{}.
template <class Id, class Value>
class IdTable {
 public:
  /// A value as after `clear()`. REQUIRES: larger than all ids so far.
  Value& add(Id id) {
    TESSERA_ASSERT(last_ < id, "ids ascend");
    last_ = id;
    if (2 * (count_ + 1) > entries_.size()) grow();
    ++count_;
    if (unused_.empty()) {
      unused_.push_back(static_cast<std::int32_t>(slots_.size()));
      slots_.emplace_back();
    }
    Entry& entry = entries_[find_place(id)];
    entry = {id, unused_.back()};
    unused_.pop_back();
    return slot(entry);
  }
  Value& add(Id id, Value value) { return add(id) = std::move(value); }
  /// Null: there is none, or not any more. Valid until something is added or erased.
  Value* find(Id id) {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[find_place(id)];
    return entry.slot < 0 ? nullptr : &slot(entry);
  }
  const Value* find(Id id) const { return const_cast<IdTable*>(this)->find(id); }
  /// REQUIRES: it is there.
  const Value& at(Id id) const {
    const Value* value = find(id);
    TESSERA_ASSERT(value != nullptr, "an id that is there");
    return *value;
  }
  void erase(Id id) {
    if (entries_.empty()) return;
    const std::size_t place = find_place(id);
    if (entries_[place].slot < 0) return;
    Value& value = slot(entries_[place]);
    if constexpr (requires { value.clear(); }) {
      value.clear();
    } else {
      value = Value{};
    }
    unused_.push_back(entries_[place].slot);
    --count_;
    close_gap(place);
  }
  /// f(id, value) in the order of ids, until it returns true. Returns whether it did.
  template <class F>
  bool any_of(F&& f) const {
    std::vector<Entry> there;
    for (const Entry& entry : entries_) {
      if (entry.slot >= 0) there.push_back(entry);
    }
    std::sort(there.begin(), there.end(),
              [](const Entry& a, const Entry& b) { return a.id < b.id; });
    return std::any_of(there.begin(), there.end(), [&](const Entry& entry) {
      return f(entry.id, slots_[static_cast<std::size_t>(entry.slot)]);
    });
  }

 private:
  struct Entry {
    Id id{};
    std::int32_t slot = -1;
  };

  Value& slot(const Entry& entry) { return slots_[static_cast<std::size_t>(entry.slot)]; }
  std::size_t next(std::size_t place) const { return (place + 1) & (entries_.size() - 1); }
  // Knuth's multiplicative hash: neighbouring ids lie far apart, so that gaps are near.
  std::size_t home(Id id) const {
    return (static_cast<std::uint32_t>(id.value) * 2654435769U) >> shift_;
  }
  // The place of `id`, or the empty one where it would be.
  std::size_t find_place(Id id) const {
    std::size_t place = home(id);
    while (entries_[place].slot >= 0 && !(entries_[place].id == id)) place = next(place);
    return place;
  }

  // Entries behind a gap move up if that brings them nearer to their home (linear probing).
  void close_gap(std::size_t gap) {
    for (std::size_t k = next(gap); entries_[k].slot >= 0; k = next(k)) {
      const std::size_t mask = entries_.size() - 1;
      const std::size_t distance = (k - home(entries_[k].id)) & mask;
      if (distance < ((k - gap) & mask)) continue;
      entries_[gap] = entries_[k];
      gap = k;
    }
    entries_[gap] = {};
  }

  void grow() {
    const std::vector<Entry> before = std::move(entries_);
    shift_ = before.empty() ? 28 : shift_ - 1;
    entries_ = std::vector<Entry>(std::size_t{1} << (32 - shift_));
    for (const Entry& entry : before) {
      if (entry.slot >= 0) entries_[find_place(entry.id)] = entry;
    }
  }

  std::vector<Entry> entries_;  // a power of two, at most half of them taken
  int shift_ = 0;
  std::vector<Value> slots_;
  std::vector<std::int32_t> unused_;
  std::size_t count_ = 0;
  Id last_{};
};

}  // namespace tessera
