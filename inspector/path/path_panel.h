// SPDX-License-Identifier: Apache-2.0
// The critical path of the step in view: a ribbon of what it goes through, and a table of what the
// step would gain if parts of it were shorter.
#pragma once

#include "inspector/widgets/panel.h"
#include "tessera/analysis/critical_path.h"

namespace tessera::inspector {

class PathPanel final : public Panel {
 public:
  /// A click on a row or on the ribbon opens the operation in the timeline, with the path.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;

 private:
  float draw_head(Surface& ui, TraceModel& model, ViewState& state,
                  const analysis::CriticalPath& path, const Box& box);
  float draw_ribbon(Surface& ui, TraceModel& model, ViewState& state,
                    const analysis::CriticalPath& path, const Box& box);
  float draw_rows(Surface& ui, TraceModel& model, ViewState& state,
                  const analysis::CriticalPath& path, analysis::PathGroup group, const Box& box);
  float draw_tables(Surface& ui, TraceModel& model, ViewState& state,
                    const analysis::CriticalPath& path, const Box& box);
};

}  // namespace tessera::inspector
