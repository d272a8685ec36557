// SPDX-License-Identifier: Apache-2.0
// Values by ids that ascend: for tables that are asked for every view of every operation.
//
// The idea: pages of neighbouring ids, each a place in an array of values. What is used together
// was made together, so that a few pages are asked for again and again, and all of an empty one is
// given back. The values of erased ids are used again, with what they own.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/assert.h"

namespace tessera {

/// A value with a member `clear()` keeps its memory when its id is erased; others are replaced by
/// Value{}.
template <class Id, class Value>
class IdTable {
 public:
  IdTable() = default;
  IdTable(IdTable&&) noexcept = default;
  IdTable& operator=(IdTable&&) noexcept = default;

  /// A value as after `clear()`. REQUIRES: larger than all ids so far.
  Value& add(Id id) {
    TESSERA_ASSERT(last_ < id, "ids ascend");
    last_ = id;
    if (unused_.empty()) {
      unused_.push_back(static_cast<std::int32_t>(slots_.size()));
      slots_.emplace_back();
    }
    std::int32_t& place = place_for(id);
    place = unused_.back();
    unused_.pop_back();
    return slots_[static_cast<std::size_t>(place)];
  }
  Value& add(Id id, Value value) { return add(id) = std::move(value); }
  /// Null: there is none, or not any more. Valid until something is added or erased.
  Value* find(Id id) {
    const std::int32_t slot = slot_of(id);
    return slot < 0 ? nullptr : &slots_[static_cast<std::size_t>(slot)];
  }
  const Value* find(Id id) const { return const_cast<IdTable*>(this)->find(id); }
  /// REQUIRES: it is there.
  const Value& at(Id id) const {
    const Value* value = find(id);
    TESSERA_ASSERT(value != nullptr, "an id that is there");
    return *value;
  }
  void erase(Id id) {
    const std::int32_t slot = slot_of(id);
    if (slot < 0) return;
    Value& value = slots_[static_cast<std::size_t>(slot)];
    if constexpr (requires { value.clear(); }) {
      value.clear();
    } else {
      value = Value{};
    }
    unused_.push_back(slot);
    auto& page = pages_[page_of(id)];
    page->slots[in_page(id)] = none;
    if (--page->count == 0) spare_ = std::move(page);
  }
  /// f(id, value) in the order of ids, until it returns true. Returns whether it did.
  template <class F>
  bool any_of(F&& f) const {
    for (std::size_t p = 0; p < pages_.size(); ++p) {
      for (std::size_t k = 0; pages_[p] && k < page_size; ++k) {
        const std::int32_t slot = pages_[p]->slots[k];
        if (slot < 0) continue;
        const Id id{static_cast<std::int32_t>(p * page_size + k)};
        if (f(id, slots_[static_cast<std::size_t>(slot)])) return true;
      }
    }
    return false;
  }

 private:
  static constexpr std::int32_t none = -1;
  static constexpr int page_bits = 8;
  static constexpr std::size_t page_size = std::size_t{1} << page_bits;

  struct Page {
    std::array<std::int32_t, page_size> slots;
    std::int32_t count = 0;  // that are taken
  };

  // An id that is not valid lies far behind all pages.
  static std::size_t page_of(Id id) { return static_cast<std::uint32_t>(id.value) >> page_bits; }
  static std::size_t in_page(Id id) {
    return static_cast<std::uint32_t>(id.value) & (page_size - 1);
  }
  std::int32_t slot_of(Id id) const {
    const std::size_t p = page_of(id);
    return p < pages_.size() && pages_[p] ? pages_[p]->slots[in_page(id)] : none;
  }
  std::int32_t& place_for(Id id) {
    const std::size_t p = page_of(id);
    if (pages_.size() <= p) pages_.resize(p + 1);
    auto& page = pages_[p];
    if (!page) {
      page = spare_ ? std::move(spare_) : std::make_unique<Page>();
      page->slots.fill(none);
      page->count = 0;
    }
    ++page->count;
    return page->slots[in_page(id)];
  }

  std::vector<std::unique_ptr<Page>> pages_;  // by their ids; null: none of them is there
  std::unique_ptr<Page> spare_;               // the last that was given back
  std::vector<Value> slots_;
  std::vector<std::int32_t> unused_;
  Id last_{};
};

}  // namespace tessera
