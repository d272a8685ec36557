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
  /// `model` takes the place of the last one: the same run, with more in it. Forgets what was found out
  /// about the last one and returns true, or returns false: then a new panel takes its place.
  virtual bool renew(const TraceModel& model) {
    static_cast<void>(model);
    return false;
  }
};

}  // namespace tessera::inspector
