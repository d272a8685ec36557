// SPDX-License-Identifier: Apache-2.0
// Something that fills the body of the window: what app/panels.cpp has a row for.
#pragma once

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

class Panel {
 public:
  virtual ~Panel() = default;
  /// One frame into `box`, whatever its size; what is clicked changes the state.
  virtual void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) = 0;
};

}  // namespace tessera::inspector
