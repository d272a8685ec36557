// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/history.h"

namespace tessera::inspector {

bool History::moved_only(const Place& from, const Place& to) {
  const bool same =
      from.panel == to.panel && from.rank == to.rank && from.selection == to.selection;
  return same && from.from < to.to && to.from < from.to;
}

void History::note(const ViewState& state) {
  const Place now{state.panel, state.rank, state.time.from(), state.time.to(), state.selection};
  const bool lasts = now == seen_;
  seen_ = now;
  if (!lasts || (!places_.empty() && places_[shown_] == now)) return;
  if (!places_.empty() && moved_only(places_[shown_], now)) {
    places_[shown_] = now;
    return;
  }
  if (!places_.empty()) places_.resize(shown_ + 1);
  if (places_.size() == most) places_.erase(places_.begin());
  places_.push_back(now);
  shown_ = places_.size() - 1;
}

void History::go(std::ptrdiff_t by, ViewState& state) {
  const auto to = static_cast<std::ptrdiff_t>(shown_) + by;
  if (to < 0 || to >= static_cast<std::ptrdiff_t>(places_.size())) return;
  shown_ = static_cast<std::size_t>(to);
  const Place& place = places_[shown_];
  state.panel = place.panel;
  state.rank = place.rank;
  state.time.show(place.from, place.to);
  state.selection = place.selection;
  state.scroll_to_rank = true;
}

}  // namespace tessera::inspector
