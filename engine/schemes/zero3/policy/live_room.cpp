// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/live_room.h"

namespace tessera {

// What is gathered ahead must not push out what is used before it: it would be gathered again
// sooner than what it made room for. What is small stays, because its gather costs latency and next
// to no room; only what is needed at once may take its place.
bool LiveRoom::may_go(const OnDemandParameter& p, std::int32_t after) const {
  if (p.copy.missing() || !p.active.empty()) return false;
  if (after == whatever_it_costs) return true;
  return !p.persistent && orders_.next_use(p.id) > after;
}

// Asked before anything is freed: a gather that fails for want of room must not have cost others
// theirs.
bool LiveRoom::can_be_made(Bytes bytes, std::int32_t after, const GatheredMemory& memory) const {
  for (const OnDemandParameter& p : parameters_) {
    if (may_go(p, after)) bytes -= memory.of(p.id);
  }
  return fits(bytes, memory);
}

OnDemandParameter& LiveRoom::first_to_go(std::int32_t after) {
  OnDemandParameter* first = nullptr;
  auto goes_before = [this](const OnDemandParameter& a, const OnDemandParameter& b) {
    if (a.persistent != b.persistent) return b.persistent;
    return orders_.next_use(a.id) > orders_.next_use(b.id);
  };
  for (OnDemandParameter& p : parameters_) {
    if (may_go(p, after) && (first == nullptr || goes_before(p, *first))) first = &p;
  }
  TESSERA_ASSERT(first != nullptr, "room was counted before it was made");
  return *first;
}

}  // namespace tessera
