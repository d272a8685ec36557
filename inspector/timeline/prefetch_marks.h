// SPDX-License-Identifier: Apache-2.0
// When each prefetch in view was issued and first used: a stroke, a line below its lane, and a
// diamond, in the colour of failure where compute stood still until it was there.
#pragma once

#include <map>
#include <utility>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "inspector/timeline/operation_legend.h"
#include "tessera/analysis/spans.h"

namespace tessera::inspector {

class PrefetchMarks {
 public:
  /// A span by its place in a lane that is in memory.
  struct Place {
    Rank rank;
    std::int32_t stream;
    std::size_t index;
  };
  /// Where the lane is, px.
  struct Strip {
    ImVec2 min, max;
  };

  /// Draws what belongs to the span, if it is a prefetch whose use is known; says so in `seen`.
  void draw(const Surface& ui, TraceModel& model, const ViewState& state, const Place& place,
            const Strip& strip, SeenMarks& seen);

 private:
  const analysis::PrefetchUse* use_of(const TraceModel& model, const RankData& rank, Rank number,
                                      std::int32_t op);

  std::map<std::pair<Rank, std::int32_t>, analysis::PrefetchUse> known_;
};

}  // namespace tessera::inspector
