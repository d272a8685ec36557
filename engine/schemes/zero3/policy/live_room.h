// SPDX-License-Identifier: Apache-2.0
// The budget of gathered bytes: what still fits, and who goes first if something does not.
//
// The idea: when each parameter is used next is known, so evicting what is used last is optimal
// (Belady, IBM Systems Journal 1966). Only questions here, no operations. What may go is kept in
// the order in which it goes, so that a question costs what it frees and not what a model has.
#pragma once

#include <set>
#include <tuple>
#include <vector>

#include "engine/schemes/zero3/parameters/gathered_memory.h"
#include "engine/schemes/zero3/policy/known_orders.h"

namespace tessera {

class LiveRoom {
 public:
  /// After a place of the expected order: room for what is needed now may cost anything that no
  /// module needs at this moment.
  static constexpr std::int32_t whatever_it_costs = -1;

  /// All must outlive it.
  LiveRoom(OnDemandParameters& parameters, const KnownOrders& orders)
      : parameters_(parameters), orders_(orders) {}

  void set_budget(Bytes budget) { budget_ = budget; }
  Bytes budget() const { return budget_; }
  bool fits(Bytes bytes, const GatheredMemory& memory) const {
    return memory.live() + memory.promised() + bytes <= budget_;
  }
  /// Whether `bytes` fit once all went that is used after the place `after`.
  bool can_be_made(Bytes bytes, std::int32_t after, const GatheredMemory& memory);
  /// How much that is, counted up to `enough`.
  Bytes most_after(std::int32_t after, Bytes enough, const GatheredMemory& memory);
  /// The one of those to go first. There is one if room can be made and nothing fits yet.
  OnDemandParameter& first_to_go(std::int32_t after);

  /// How many parameters were looked at so far: tests hold it against the number of visits.
  std::int64_t looks() const { return looks_; }

 private:
  // What is small goes last, else what is used last goes first.
  struct Place {
    bool persistent = false;
    std::int32_t next_use = 0;
    ParameterId id;

    bool operator<(const Place& other) const {
      return std::tuple(persistent, -std::int64_t{next_use}, id) <
             std::tuple(other.persistent, -std::int64_t{other.next_use}, other.id);
    }
  };

  static bool may_go(const Place& place, std::int32_t after);
  void refresh();
  void refresh(const OnDemandParameter& p);

  OnDemandParameters& parameters_;
  const KnownOrders& orders_;
  Bytes budget_{};
  std::set<Place> idle_;         // what is gathered and needed by no module now
  std::vector<Place> placed_;    // by ParameterId, as in `idle_`
  std::vector<bool> is_placed_;  // by ParameterId
  std::int64_t version_ = -1;    // of the orders
  std::int64_t looks_ = 0;
};

}  // namespace tessera
