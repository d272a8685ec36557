// SPDX-License-Identifier: Apache-2.0
// Gathers and keeps by a plan, within a budget of bytes that holds at every allocation.
//
// The idea: the order of visits is known (expected at first, recorded later), so it is known when
// each parameter is used next. What is missing is gathered in the order of need, as far ahead as
// the budget reaches; what makes room is what is used last (Belady, IBM Systems Journal 1966), and
// nothing is gathered ahead at the cost of what is used earlier.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "engine/schemes/zero3/policy/fetch_policy.h"
#include "engine/schemes/zero3/policy/known_orders.h"

namespace tessera {

class StrictPolicy final : public FetchPolicy {
 public:
  StrictPolicy(ParameterMover& mover, const Zero3Options& options);

  Status check() override;
  Status begin_forward(const ForwardPass& pass) override;
  Status pre_forward(ModuleId module, bool recomputing) override;
  Status touch(ModuleId module, OnDemandParameter& p) override;
  Status post_forward(ModuleId module, bool recomputing) override;
  Status begin_backward() override;
  Status pre_backward(ModuleId module) override;
  Status post_backward(ModuleId module) override;
  Status end_pass() override;
  Status drop_forward() override { return end_pass(); }
  Status before_step() override;
  Status values_changed() override;
  void graph_changed() override { orders_.expect_from(mover_.moved_model()); }
  std::vector<LiveParameter> live() const override;
  std::optional<Bytes> budget() const override { return budget_; }

 private:
  using State = OnDemandParameter::State;

  static std::size_t index(ModuleId id) { return static_cast<std::size_t>(id.value); }
  OnDemandParameter& at(ParameterId id) {
    return mover_.moved()[static_cast<std::size_t>(id.value)];
  }
  const OnDemandParameter& at(ParameterId id) const {
    return std::as_const(mover_).moved()[static_cast<std::size_t>(id.value)];
  }
  const std::vector<ParameterId>& needs(ModuleId id) const { return mover_.needs()[index(id)]; }

  Status visit(const Visit& visit);
  Status leave(ModuleId module);
  Status gather_needed(ModuleId module);
  Status gather_now(ModuleId module, std::vector<ParameterId> ids);
  Status arrive(ModuleId module);
  Status look_ahead();
  Status read_ahead();
  Result<bool> gather_ahead(ParameterId id, std::int32_t place);
  struct Together {
    std::vector<ParameterId> parameters;
    std::int32_t last = 0;  // the place of the last one's use
  };
  Together together(ParameterId first, std::int32_t place) const;
  Status gather(std::vector<ParameterId> ids, Reason reason);

  bool fits(Bytes bytes) const {
    return mover_.live_bytes() + mover_.promised() + bytes <= budget_;
  }
  bool may_go(const OnDemandParameter& p, std::int32_t after) const;
  bool can_make_room(Bytes bytes, std::int32_t after) const;
  Result<bool> make_room(Bytes bytes, std::int32_t after);
  Status evict(OnDemandParameter& p);
  Status free_all();
  Status refuse(ModuleId module, Bytes needed) const;

  ParameterMover& mover_;
  const Zero3Options options_;
  Bytes budget_{};
  Bytes together_{};  // that may share a gather
  KnownOrders orders_;
  bool open_ = false;  // a pass is under way
  bool backward_ = false;
  std::vector<EventId> arrived_;  // that the visit waits for
  std::deque<std::shared_ptr<Gather>> unsplit_;
  std::int32_t ahead_ = 0;        // everything expected before it was looked at
  std::vector<int> open_visits_;  // by ModuleId
  std::vector<bool> prefetched_;  // by ParameterId: not used since it was gathered
};

}  // namespace tessera
