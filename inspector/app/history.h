// SPDX-License-Identifier: Apache-2.0
// What somebody looked at, to go back to.
//
// The idea: a place counts once it lasts for two frames, and moving in time from one view to one
// that it overlaps is the same place; so a wheel that turns leaves one place behind, not thirty.
//
//   each frame: history.note({panel, rank, from, to, selection});
//   if (const auto place = history.back()) show(*place);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inspector/model/trace_model.h"

namespace tessera::inspector {

struct Place {
  std::string panel;
  Rank rank = 0;
  Time from = 0, to = 0;
  std::optional<SpanRef> selection;
  bool operator==(const Place&) const = default;
};

class History {
 public:
  static constexpr std::size_t most = 100;

  void note(const Place& now);
  /// The place before the one that is shown, which then is; nothing at the first.
  std::optional<Place> back() { return go(-1); }
  std::optional<Place> forward() { return go(1); }

 private:
  std::optional<Place> go(std::ptrdiff_t by);

  std::vector<Place> places_;
  std::size_t shown_ = 0;  // of them
  Place seen_;             // in the frame before
};

}  // namespace tessera::inspector
