// SPDX-License-Identifier: Apache-2.0
// Accesses to one buffer, found by the bytes that they touch.
//
// The idea: most buffers are accessed as a whole by a few operations, so a short list is searched
// faster than any index. A flat buffer of a whole model has as many accesses as the model has
// parameters: from `indexed_from` on records are found by where they begin, those together whose
// lengths have one power of two, so that a search knows how far back one may begin that reaches it.
// Every rank's piece of a flat buffer, or blocks with a pitch, are found by where they begin within
// their period: they span the buffer, and would be near to everything.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <iterator>
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
    int family = 0;
  };
  // Accesses that are searched alike.
  struct Family {
    std::int64_t period = 0;  // 0: each is one range
    std::int64_t reach = 0;   // none is longer

    bool operator==(const Family&) const = default;
    std::int64_t place(const Access& a) const { return period == 0 ? a.begin : a.begin % period; }
  };
  using Key = std::tuple<int, std::int64_t, std::size_t>;  // family, place, slot
  static constexpr std::ptrdiff_t most_periodic = 16;      // families; more are searched as ranges

  // The bytes from `begin` on that it touches at any index, where nobody cuts them at its end.
  static std::int64_t hull(const Access& a) {
    return a.step + a.pitch == 0 ? a.length : std::max(a.length, a.end - a.begin);
  }
  bool indexed() const { return !families_.empty(); }
  int family_of(const Access& a);
  void index(std::size_t slot);
  Key key_of(std::size_t slot) const;
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
    for (std::size_t k = 0; k < families_.size(); ++k) {
      const auto [period, reach] = families_[k];
      const auto family = static_cast<int>(k);
      const bool alike = period != 0 && access.period() == period;
      const std::int64_t begin = families_[k].place(access) - reach;
      const std::int64_t end = begin + reach + (alike ? access.length : hull(access));
      if (period == 0) {
        if (visit_ranges(family, access, begin, end, f)) return true;
      } else if (end - begin >= period) {
        if (visit_between(family, 0, period, f)) return true;
      } else {
        // What begins late in a period reaches into the next.
        if (begin < 0 && visit_between(family, begin + period, period, f)) return true;
        if (visit_between(family, std::max<std::int64_t>(0, begin), end, f)) return true;
        if (end >= period && visit_between(family, 0, end - period, f)) return true;
      }
    }
    return false;
  }
  // Of a family of ranges. The blocks of a periodic access are looked for one by one where no range
  // can reach from one to the next: what lies between them is most of a flat buffer.
  template <class F>
  bool visit_ranges(int family, const Access& access, std::int64_t begin, std::int64_t end, F&& f) {
    const std::int64_t period = access.period();
    const std::int64_t width = access.length + families_[static_cast<std::size_t>(family)].reach;
    const std::int64_t spanned = std::max<std::int64_t>(0, access.end - access.begin);
    // And the one behind the last, as `overlap` does not ask which is the last.
    const std::int64_t blocks = period == 0 ? 1 : (spanned + period - 1) / period + 1;
    if (width >= period || blocks > std::ssize(index_)) return visit_between(family, begin, end, f);
    for (std::int64_t k = 0; k < blocks; ++k) {
      const std::int64_t first = begin + k * period;
      if (visit_between(family, first, first + width, f)) return true;
    }
    return false;
  }
  template <class F>
  bool visit_between(int family, std::int64_t first, std::int64_t last, F&& f) {
    for (auto at = index_.lower_bound(Key{family, first, 0});
         at != index_.end() && std::get<0>(*at) == family && std::get<1>(*at) <= last; ++at) {
      ++visits_;
      if (f(std::get<2>(*at))) return true;
    }
    return false;
  }

  std::vector<Slot> slots_;  // without an index: in the order of accesses, all taken
  std::vector<std::size_t> unused_, dropped_;
  std::set<Key> index_;
  std::vector<Family> families_;  // those in the index; none: there is no index
  std::size_t count_ = 0;
  std::int64_t visits_ = 0;
};

}  // namespace tessera
