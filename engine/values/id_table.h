// SPDX-License-Identifier: Apache-2.0
// Values by ids that ascend: for tables that are asked for every view of every operation.
//
// The idea: pages of neighbouring ids, each a place in an array of values, and books of
// neighbouring pages. What is used together was made together, so that a few pages are asked for
// again and again, and what is empty is given back: of a run without end 8 bytes of 65,536 ids
// stay. The values of erased ids are used again, with what they own.
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
    auto& book = books_[book_of(id)];
    auto& page = book->pages[in_book(id)];
    page->slots[in_page(id)] = none;
    if (--page->count > 0) return;
    spare_ = std::move(page);
    if (--book->count == 0) book.reset();
  }
  /// f(id, value) in the order of ids, until it returns true. Returns whether it did.
  template <class F>
  bool any_of(F&& f) const {
    for (std::size_t b = 0; b < books_.size(); ++b) {
      for (std::size_t p = 0; books_[b] && p < fan_out; ++p) {
        const Page* const page = books_[b]->pages[p].get();
        for (std::size_t k = 0; page != nullptr && k < fan_out; ++k) {
          if (page->slots[k] < 0) continue;
          const Id id{static_cast<std::int32_t>((b * fan_out + p) * fan_out + k)};
          if (f(id, slots_[static_cast<std::size_t>(page->slots[k])])) return true;
        }
      }
    }
    return false;
  }

 private:
  static constexpr std::int32_t none = -1;
  static constexpr int bits = 8;
  static constexpr std::size_t fan_out = std::size_t{1} << bits;

  struct Page {
    std::array<std::int32_t, fan_out> slots;
    std::int32_t count = 0;  // that are taken
  };
  struct Book {
    std::array<std::unique_ptr<Page>, fan_out> pages;  // null: none of its ids is there
    std::int32_t count = 0;                            // that are there
  };

  // An id that is not valid lies far behind all books.
  static std::size_t book_of(Id id) { return static_cast<std::uint32_t>(id.value) >> 2 * bits; }
  static std::size_t in_book(Id id) {
    return static_cast<std::uint32_t>(id.value) >> bits & (fan_out - 1);
  }
  static std::size_t in_page(Id id) { return static_cast<std::uint32_t>(id.value) & (fan_out - 1); }
  std::int32_t slot_of(Id id) const {
    const std::size_t b = book_of(id);
    if (b >= books_.size() || !books_[b]) return none;
    const Page* const page = books_[b]->pages[in_book(id)].get();
    return page == nullptr ? none : page->slots[in_page(id)];
  }
  std::int32_t& place_for(Id id) {
    const std::size_t b = book_of(id);
    if (books_.size() <= b) books_.resize(b + 1);
    if (!books_[b]) books_[b] = std::make_unique<Book>();
    auto& page = books_[b]->pages[in_book(id)];
    if (!page) {
      page = spare_ ? std::move(spare_) : std::make_unique<Page>();
      page->slots.fill(none);
      page->count = 0;
      ++books_[b]->count;
    }
    ++page->count;
    return page->slots[in_page(id)];
  }

  std::vector<std::unique_ptr<Book>> books_;  // by their ids; null: none of them is there
  std::unique_ptr<Page> spare_;               // the last that was given back
  std::vector<Value> slots_;
  std::vector<std::int32_t> unused_;
  Id last_{};
};

}  // namespace tessera
