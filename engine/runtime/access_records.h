// SPDX-License-Identifier: Apache-2.0
// Accesses to one buffer, found by the bytes that they touch.
//
// The idea: most buffers are accessed as a whole by a few operations, so a short list is searched
// faster than any index. A flat buffer of a whole model has as many accesses as the model has
// parameters: from `indexed_from` on records are found by where they begin, one index for each
// power of two of their length, so that a search knows how far back one may begin that reaches it.
#pragma once

#include <bit>
#include <cstdint>
#include <set>
#include <string>
#include <tuple>
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

struct AccessRecord {
  Access access;
  Position position;
  Accessor accessor;
  bool unread = false;  // a collective wrote it and nobody has read it
  RankSet unread_on;    // by nobody of these; empty: of all that have the buffer
};

class AccessRecords {
 public:
  static constexpr std::size_t indexed_from = 24;

  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  void clear();
  void add(AccessRecord record);

  /// f(record) for those that may touch bytes of `access`, until it returns true. Returns whether
  /// it did.
  template <class F>
  bool any_near(const Access& access, F&& f) const {
    return const_cast<AccessRecords*>(this)->visit_near(
        access, [&](std::size_t slot) { return f(std::as_const(slots_[slot].record)); });
  }
  /// f(record) for each of those; those for which it returns true are dropped.
  template <class F>
  void drop_near(const Access& access, F&& f) {
    dropped_.clear();
    visit_near(access, [&](std::size_t slot) {
      if (f(slots_[slot].record)) dropped_.push_back(slot);
      return false;
    });
    drop();
  }
  /// f(record) for all, until it returns true. Returns whether it did.
  template <class F>
  bool any(F&& f) const {
    for (const Slot& slot : slots_) {
      if (slot.taken && f(slot.record)) return true;
    }
    return false;
  }
  /// How many records searches have looked at: tests hold it against the number of accesses.
  std::int64_t visits() const { return visits_; }

 private:
  struct Slot {
    AccessRecord record;
    bool taken = true;
  };
  using Key = std::tuple<int, std::int64_t, std::size_t>;  // power of two, begin, slot

  // The bytes that it touches at any index.
  static std::int64_t hull_end(const Access& a) {
    return a.step == 0 ? a.begin + a.length : std::max(a.begin + a.length, a.end);
  }
  static int power_of(const Access& a) {
    return static_cast<int>(std::bit_width(
        static_cast<std::uint64_t>(std::max<std::int64_t>(0, hull_end(a) - a.begin))));
  }
  bool indexed() const { return powers_ != 0; }
  void index(std::size_t slot);
  void drop();

  template <class F>
  bool visit_near(const Access& access, F&& f) {
    if (!indexed()) {
      visits_ += static_cast<std::int64_t>(slots_.size());
      for (std::size_t k = 0; k < slots_.size(); ++k) {
        if (f(k)) return true;
      }
      return false;
    }
    const std::int64_t end = hull_end(access);
    for (std::uint64_t left = powers_; left != 0; left &= left - 1) {
      const int power = std::countr_zero(left);
      const std::int64_t reach = std::int64_t{1} << power;
      for (auto at = index_.lower_bound(Key{power, access.begin - reach, 0});
           at != index_.end() && std::get<0>(*at) == power && std::get<1>(*at) <= end; ++at) {
        ++visits_;
        if (f(std::get<2>(*at))) return true;
      }
    }
    return false;
  }

  std::vector<Slot> slots_;  // without an index: in the order of accesses, all taken
  std::vector<std::size_t> unused_, dropped_;
  std::set<Key> index_;
  std::uint64_t powers_ = 0;  // bits of those in the index; 0: there is none
  std::size_t count_ = 0;
  std::int64_t visits_ = 0;
};

}  // namespace tessera
