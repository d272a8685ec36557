// SPDX-License-Identifier: Apache-2.0
// The budget of gathered bytes: what still fits, and who goes first if something does not.
//
// The idea: when each parameter is used next is known, so evicting what is used last is optimal
// (Belady, IBM Systems Journal 1966). Only questions here, no operations.
#pragma once

#include "engine/schemes/zero3/gathered_memory.h"
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
  bool can_be_made(Bytes bytes, std::int32_t after, const GatheredMemory& memory) const;
  /// Of those, the one to go first. There is one if room can be made and nothing fits yet.
  OnDemandParameter& first_to_go(std::int32_t after);

 private:
  bool may_go(const OnDemandParameter& p, std::int32_t after) const;

  OnDemandParameters& parameters_;
  const KnownOrders& orders_;
  Bytes budget_{};
};

}  // namespace tessera
