// SPDX-License-Identifier: Apache-2.0
// What somebody looked at, to go back to.
//
// The idea: a place counts once it lasts for two frames, and moving in time from one view to one
// that it overlaps is the same place; so a wheel that turns leaves one place behind, not thirty.
//
//   each frame: history.note(state);
//   on a key: history.back(state);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "inspector/model/view_state.h"

namespace tessera::inspector {

class History {
 public:
  static constexpr std::size_t most = 100;

  void note(const ViewState& state);
  /// To the place before the one that is shown; at the first nothing happens.
  void back(ViewState& state) { go(-1, state); }
  void forward(ViewState& state) { go(1, state); }

 private:
  struct Place {
    std::string panel;
    Rank rank = 0;
    Time from = 0, to = 0;
    std::optional<SpanRef> selection;
    bool operator==(const Place&) const = default;
  };
  static bool moved_only(const Place& from, const Place& to);
  void go(std::ptrdiff_t by, ViewState& state);

  std::vector<Place> places_;
  std::size_t shown_ = 0;  // of them
  Place seen_;             // in the frame before
};

}  // namespace tessera::inspector
