// SPDX-License-Identifier: Apache-2.0
// What the program gives away: pictures of itself, and what is selected as text; each is said at
// the lower edge for a while.
#pragma once

#include <string>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

class TakeAlong {
 public:
  /// A picture of this frame, beside the trace: "run-findings.png".
  void save_picture(Surface& ui, const TraceModel& model, const ViewState& state);
  /// The selected operation, or else what is in view, into the clipboard.
  void copy_text(TraceModel& model, const ViewState& state);
  /// A query that has the selected operation, or else what is in view of the opened rank.
  void copy_sql(const ViewState& state);
  /// Says `words` for a while.
  void say(std::string words);
  /// What was done last; in each frame.
  void draw(Surface& ui, ViewState& state);

 private:
  std::string said_;
  std::string picture_;  // that is being saved
  double until_ = 0;     // s, of ImGui's clock
};

}  // namespace tessera::inspector
