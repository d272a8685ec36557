// SPDX-License-Identifier: Apache-2.0
#include "inspector/app/history.h"

namespace tessera::inspector {
namespace {

bool moved_only(const Place& from, const Place& to) {
  const bool same =
      from.panel == to.panel && from.rank == to.rank && from.selection == to.selection;
  return same && from.from < to.to && to.from < from.to;
}

}  // namespace

void History::note(const Place& now) {
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

std::optional<Place> History::go(std::ptrdiff_t by) {
  const auto to = static_cast<std::ptrdiff_t>(shown_) + by;
  if (to < 0 || to >= static_cast<std::ptrdiff_t>(places_.size())) return {};
  shown_ = static_cast<std::size_t>(to);
  seen_ = places_[shown_];
  return seen_;
}

}  // namespace tessera::inspector
