// SPDX-License-Identifier: Apache-2.0
// The classes of ranks that are alike, as lines; found out once.
#pragma once

#include <optional>
#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "tessera/analysis/rank_classes.h"

namespace tessera::inspector {

class ClassList {
 public:
  /// What is known is of an older state of the trace.
  void forget() { classes_.reset(); }
  /// Draws them in the current window, with a heading; nothing if all ranks are alike. A click
  /// opens the first recorded rank of a class.
  void draw(const Surface& ui, TraceModel& model, ViewState& state);

 private:
  void find_out(TraceModel& model);

  std::optional<std::vector<analysis::RankClass>> classes_;
};

}  // namespace tessera::inspector
