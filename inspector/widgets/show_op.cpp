// SPDX-License-Identifier: Apache-2.0
#include "inspector/widgets/show_op.h"

#include <algorithm>

namespace tessera::inspector {

void show_op(TraceModel& model, ViewState& state, Rank rank, std::int32_t op) {
  state.selection = model.find(rank, op);
  state.open_rank(rank);
  if (!state.selection) return;
  const analysis::SpanFacts facts = model.facts(*state.selection);
  const Time around = std::max<Time>(4 * facts.duration, 1000);
  state.time.show(facts.begin - around, facts.begin + facts.duration + around);
}

}  // namespace tessera::inspector
