// SPDX-License-Identifier: Apache-2.0
// Two panels at once: where they lie, and the strip above the second one that says which it is.
//
// The idea: both look at one state, so they share the range of time, the opened rank and the
// selection. Tabs and keys choose the first panel; the second one has a strip of its own.
#pragma once

#include <string>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

class SecondPanel {
 public:
  struct Places {
    Box first, head, second;
    bool both = false;  // otherwise the first one has all
  };

  /// How they share `body`; where one would have too little room the first one has all.
  Places places(const Surface& ui, const ViewState& state, const Box& body) const;
  /// The strip, and the edge between them.
  void draw_head(Surface& ui, ViewState& state, const Box& body, const Places& places);

  /// `name` is the second panel from now on; if it is the first, they are exchanged.
  static void show(ViewState& state, const std::string& name);
  /// The second panel becomes the first.
  static void exchange(ViewState& state);
  /// After a frame with both: what the second one shows is not opened as the first one, too.
  static void settle(ViewState& state, const std::string& first_before);
  /// Shows the last one again, or ends it.
  static void toggle(ViewState& state);

 private:
  void drag_edge(const Surface& ui, ViewState& state, const Box& body, const Places& places);
  bool dragged_ = false;
};

}  // namespace tessera::inspector
