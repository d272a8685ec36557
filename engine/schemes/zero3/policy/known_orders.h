// SPDX-License-Identifier: Apache-2.0
// Every order of visits that passes have had so far, and the one that this pass seems to follow.
//
// The idea: a pass that runs otherwise than expected loses nothing: either an order that began
// alike is known, or the expected one is taken up again further behind, or what came in between was
// only inserted. What was expected only matters for what is gathered ahead. If the last step had
// further micro-batches, the next pass is expected right behind this one.
#pragma once

#include <array>
#include <vector>

#include "engine/schemes/zero3/policy/visit_order.h"

namespace tessera {

class KnownOrders {
 public:
  /// Kept per mode; the one that was followed longest ago is forgotten first.
  static constexpr std::size_t orders_max = 8;

  explicit KnownOrders(const Model& model);

  /// The next training pass is expected to be what the model says.
  void expect_from(const Model& model);
  void begin(bool training, const UseTable::Needs& needs);
  /// False: another visit was expected; the following ones are guessed anew.
  bool follow(const Visit& visit);
  /// The pass is over: what it visited is known from now on.
  void end();
  /// The optimizer steps: gathered values are old.
  void step();

  /// The place of the next visit in what is expected.
  std::int32_t place() const { return place_; }
  /// Visits of this pass so far.
  std::int32_t visited() const { return static_cast<std::int32_t>(seen_.size()); }
  /// The number in this pass of what is expected at `place`.
  std::int32_t visit_at(std::int32_t place) const { return visited() + place - place_; }
  /// The visits of this pass and perhaps the next.
  const Visits& expected() const { return expected_; }
  std::int32_t next_use(ParameterId parameter) const { return uses_.next(parameter, place_); }
  /// Another number whenever next uses have changed otherwise than by coming.
  std::int64_t version() const { return version_; }
  /// Orders of the mode, for tests.
  std::size_t known(bool training) const { return modes_[training ? 0 : 1].orders.size(); }

 private:
  struct Order {
    Visits visits;
    std::size_t then = 0;  // the order that followed it the last time
    std::int64_t followed = 0;
  };
  struct Mode {
    std::vector<Order> orders;
    std::size_t last = 0;  // the order that was followed last
  };

  Mode& mode() { return modes_[training_ ? 0 : 1]; }
  void expect(std::size_t order);
  bool another_pass() const { return training_ && passes_in_step_ + 1 < passes_per_step_; }
  bool switch_order();
  bool take_up(const Visit& visit);
  std::size_t remember(Visits visits);

  std::array<Mode, 2> modes_;  // training, evaluation
  const std::size_t parameters_;
  const UseTable::Needs* needs_ = nullptr;
  bool training_ = true;
  std::int64_t passes_ = 0;
  std::int32_t passes_in_step_ = 0;
  std::int32_t passes_per_step_ = 1;  // the last time
  Visits seen_;
  Visits expected_;
  std::int32_t end_ = 0;  // of this pass in what is expected
  UseTable uses_;
  std::int32_t place_ = 0;
  std::int64_t version_ = 0;
};

}  // namespace tessera
