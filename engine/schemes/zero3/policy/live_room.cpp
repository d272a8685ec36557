// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/policy/live_room.h"

#include <utility>

namespace tessera {

void LiveRoom::refresh(const OnDemandParameter& p) {
  ++looks_;
  const std::size_t k = p.id.index();
  if (is_placed_[k]) idle_.erase(placed_[k]);
  is_placed_[k] = !p.copy.missing() && p.active.empty();
  if (!is_placed_[k]) return;
  placed_[k] = {p.persistent, orders_.next_use(p.id), p.id};
  idle_.insert(placed_[k]);
}

// A next use only changes with the order, or when it comes: then the parameter is needed, and so
// noted as changed.
void LiveRoom::refresh() {
  const auto changed = parameters_.take_changed();
  const OnDemandParameters& all = parameters_;
  if (changed && std::exchange(version_, orders_.version()) == orders_.version()) {
    for (ParameterId id : *changed) refresh(all[id]);
    return;
  }
  version_ = orders_.version();
  idle_.clear();
  placed_.resize(all.size());
  is_placed_.assign(all.size(), false);
  for (const OnDemandParameter& p : all) refresh(p);
}

// What is gathered ahead must not push out what is used before it: it would be gathered again
// sooner than what it made room for. What is small stays, because its gather costs latency and next
// to no room; only what is needed at once may take its place.
bool LiveRoom::may_go(const Place& place, std::int32_t after) {
  return after == whatever_it_costs || (!place.persistent && place.next_use > after);
}

// Asked before anything is freed: a gather that fails for want of room must not have cost others
// theirs.
bool LiveRoom::can_be_made(Bytes bytes, std::int32_t after, const GatheredMemory& memory) {
  refresh();
  for (const Place& place : idle_) {
    if (fits(bytes, memory) || !may_go(place, after)) break;
    ++looks_;
    bytes -= memory.of(place.id);
  }
  return fits(bytes, memory);
}

Bytes LiveRoom::most_after(std::int32_t after, Bytes enough, const GatheredMemory& memory) {
  refresh();
  Bytes room = budget_ - memory.live() - memory.promised();
  for (const Place& place : idle_) {
    if (room >= enough || !may_go(place, after)) break;
    ++looks_;
    room += memory.of(place.id);
  }
  return room;
}

OnDemandParameter& LiveRoom::first_to_go(std::int32_t after) {
  refresh();
  TESSERA_ASSERT(!idle_.empty() && may_go(*idle_.begin(), after),
                 "room was counted before it was made");
  return parameters_[idle_.begin()->id];
}

}  // namespace tessera
