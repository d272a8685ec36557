// SPDX-License-Identifier: Apache-2.0
// The faults of the run, the costliest first: a card each, with evidence and advice.
#pragma once

#include "inspector/widgets/panel.h"

namespace tessera::inspector {

class FindingsPanel final : public Panel {
 public:
  /// A click on a card opens the rank and the moment that it is about.
  void draw(Surface& ui, TraceModel& model, ViewState& state, const Box& box) override;

 private:
  float draw_card(const Surface& ui, TraceModel& model, ViewState& state,
                  const analysis::Finding& finding, const Box& box, std::size_t number);
  static float draw_searches(const Surface& ui, const std::vector<analysis::Finding>& findings,
                             const Box& box);
};

}  // namespace tessera::inspector
