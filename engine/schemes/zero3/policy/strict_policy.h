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
#include "engine/schemes/zero3/policy/live_room.h"

namespace tessera {

class StrictPolicy final : public FetchPolicy {
 public:
  explicit StrictPolicy(const PolicyGround& ground);

  Status check() override;
  Status begin_forward(const ForwardPass& pass) override;
  Status pre_forward(ModuleId module, bool recomputing) override;
  Status touch(ModuleId module, OnDemandParameter& p) override;
  Status post_forward(ModuleId module) override;
  Status pre_backward(ModuleId module) override;
  Status post_backward(ModuleId module) override;
  Status end_pass(bool dropped) override;
  Status before_step() override;
  Status values_changed() override;
  void graph_changed() override { orders_.expect_from(model()); }
  std::optional<Bytes> budget() const override { return room_.budget(); }

 private:
  static std::size_t index(ModuleId id) { return id.index(); }
  static std::size_t index(ParameterId id) { return id.index(); }

  void explain(const OnDemandParameter& p, LiveParameter& live) const override;
  Bytes bytes_of(ParameterId id) const { return mover().memory().of(id); }
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
  Together together(ParameterId first, std::int32_t place);
  template <class Add>
  void list_together(Together& out, const Add& add);
  Status gather(std::vector<ParameterId> ids, Reason reason);

  Result<bool> make_room(Bytes bytes, std::int32_t after);
  Status evict(OnDemandParameter& p);
  Status free_all();
  Status refuse(ModuleId module, Bytes needed) const;

  Bytes together_{};  // that may share a gather
  KnownOrders orders_;
  LiveRoom room_;
  bool open_ = false;             // a pass is under way
  std::vector<EventId> arrived_;  // that the visit waits for
  std::deque<std::shared_ptr<Gather>> unsplit_;
  std::int32_t ahead_ = 0;        // everything expected before it was looked at
  std::vector<int> open_visits_;  // by ModuleId
  std::vector<bool> prefetched_;  // by ParameterId: not used since it was gathered
  std::vector<bool> chosen_;      // by ParameterId: for the gather that is put together
  std::vector<ParameterId> persistent_;
};

}  // namespace tessera
