// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/known_orders.h"

#include <algorithm>
#include <utility>

#include "tessera/assert.h"

namespace tessera {

// Before anything ran the model says what to expect. Whether blocks are recomputed is not in it, so
// both orders are known from the start, and the first recomputed visit tells which it is.
KnownOrders::KnownOrders(const Model& model) : parameters_(model.parameters.size()) {
  modes_[0].orders.push_back({expected_visits(model, true, false)});
  Visits recomputing = expected_visits(model, true, true);
  if (recomputing != modes_[0].orders[0].visits) modes_[0].orders.push_back({recomputing, 1});
  modes_[1].orders.push_back({expected_visits(model, false, false)});
}

// It takes the place of what followed the last order; that one stays known, and is followed again
// if the model goes back to it.
void KnownOrders::expect_from(const Model& model) {
  training_ = true;
  const std::size_t last = mode().last;
  const std::size_t expected = remember(expected_visits(model, true, false));
  mode().orders[last].then = expected;
}

// Behind a micro-batch that is not the last of its step values stay as they are, so what is
// gathered may serve the next one: its order is expected right behind.
void KnownOrders::expect(std::size_t order) {
  TESSERA_ASSERT(needs_ != nullptr, "a pass begins before anything is expected of it");
  TESSERA_ASSERT(order < mode().orders.size(), "only known orders are expected");
  const auto& orders = mode().orders;
  expected_ = orders[order].visits;
  end_ = static_cast<std::int32_t>(expected_.size());
  if (another_pass()) {
    const Visits& next = orders[orders[order].then].visits;
    expected_.insert(expected_.end(), next.begin(), next.end());
  }
  uses_.build(expected_, *needs_, parameters_);
  ++version_;
}

void KnownOrders::begin(bool training, const UseTable::Needs& needs) {
  training_ = training;
  needs_ = &needs;
  TESSERA_ASSERT(mode().last < mode().orders.size(), "the order that was followed last is known");
  seen_.clear();
  place_ = 0;
  expect(mode().orders[mode().last].then);
}

// Three ways to go on after a surprise, the surest first: an order is known that began exactly as
// this pass did; the visit comes later in what was expected, and what is between was left out; it
// was inserted, and the expected one comes after it.
bool KnownOrders::follow(const Visit& visit) {
  TESSERA_ASSERT(place_ <= end_ && end_ <= static_cast<std::int32_t>(expected_.size()),
                 "what is expected of this pass comes before what is expected of the next");
  seen_.push_back(visit);
  if (place_ < end_ && expected_[static_cast<std::size_t>(place_)] == visit) {
    ++place_;
    return true;
  }
  if (!switch_order()) take_up(visit);
  return false;
}

// To one that began as this pass did, the youngest first: models that alternate between a few
// graphs find each of them again.
bool KnownOrders::switch_order() {
  const Order* best = nullptr;
  for (const Order& order : mode().orders) {
    if (order.visits.size() < seen_.size()) continue;
    if (!std::equal(seen_.begin(), seen_.end(), order.visits.begin())) continue;
    if (best == nullptr || order.followed > best->followed) best = &order;
  }
  if (best == nullptr) return false;
  expect(static_cast<std::size_t>(best - mode().orders.data()));
  place_ = static_cast<std::int32_t>(seen_.size());
  ++version_;
  return true;
}

// Behind the next place with the same visit; a visit that is not expected any more was inserted.
bool KnownOrders::take_up(const Visit& visit) {
  const auto end = expected_.begin() + end_;
  const auto found = std::find(expected_.begin() + place_, end, visit);
  if (found == end) return false;
  place_ = static_cast<std::int32_t>(found - expected_.begin()) + 1;
  ++version_;
  return true;
}

// Few are kept: orders that never come again (data decides them) would otherwise pile up, and each
// surprise compares with all of them.
std::size_t KnownOrders::remember(Visits visits) {
  auto& orders = mode().orders;
  auto found = std::find_if(orders.begin(), orders.end(),
                            [&](const Order& order) { return order.visits == visits; });
  if (found == orders.end()) {
    if (orders.size() < orders_max) {
      found = orders.insert(found, Order{});
    } else {
      found = std::min_element(orders.begin(), orders.end(), [](const Order& a, const Order& b) {
        return a.followed < b.followed;
      });
    }
    const auto place = static_cast<std::size_t>(found - orders.begin());
    *found = {std::move(visits), place};
  }
  found->followed = ++passes_;
  return static_cast<std::size_t>(found - orders.begin());
}

// Orders follow each other as they did the last time, so alternating graphs are expected in turn.
void KnownOrders::end() {
  place_ = end_;
  ++version_;
  if (training_) ++passes_in_step_;
  if (seen_.empty()) return;
  const std::size_t last = mode().last;
  const std::size_t now = remember(std::move(seen_));
  seen_.clear();
  mode().orders[last].then = now;
  mode().last = now;
}

void KnownOrders::step() { passes_per_step_ = std::exchange(passes_in_step_, 0); }

}  // namespace tessera
