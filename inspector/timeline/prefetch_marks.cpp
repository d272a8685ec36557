// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/prefetch_marks.h"

#include <algorithm>
#include <cmath>

namespace tessera::inspector {
namespace {

constexpr std::size_t known_max = 1 << 16;  // of 48 bytes
constexpr float least_px = 6;               // between issue and use: closer marks are none

}  // namespace

// What is not used in memory may be, once more is there: only what was found is kept.
const analysis::PrefetchUse* PrefetchMarks::use_of(const TraceModel& model, const RankData& rank,
                                                   Rank number, std::int32_t op) {
  const auto found = known_.find({number, op});
  if (found != known_.end()) return &found->second;
  const auto use = analysis::prefetch_use(model, rank.compute, model.op(op));
  if (!use) return nullptr;
  if (known_.size() >= known_max) known_.clear();
  return &known_.emplace(std::pair(number, op), *use).first->second;
}

void PrefetchMarks::draw(const Surface& ui, TraceModel& model, const ViewState& state,
                         const Place& place, const Strip& strip, SeenMarks& seen) {
  const RankData& rank = model.rank(place.rank);
  const storage::Lane& spans = rank.lane(place.stream)->spans;
  const auto* const use = use_of(model, rank, place.rank, spans.op[place.index]);
  if (use == nullptr) return;
  const float width = strip.max.x - strip.min.x;
  const auto x_of = [&](Time time) {
    return std::floor(
        std::clamp(state.time.x_of(time, strip.min.x, width), strip.min.x - 1, strip.max.x + 1));
  };
  // The host runs ahead: what it issued early began when its stream was free.
  const float issued = x_of(std::min(use->issued, spans.begin[place.index])),
              used = x_of(use->used);
  if (used - issued < ui.theme.px(least_px)) return;
  const bool late = spans.end[place.index] > use->idle;
  (late ? seen.late_prefetches : seen.prefetches) = true;
  const Colour colour = late ? ui.colours().fail : ui.theme.dim;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float y = strip.max.y, r = ui.theme.px(4), stroke = ui.theme.px(1);
  draw->AddRectFilled({issued, y - ui.theme.px(7)}, {issued + stroke, y + stroke}, colour);
  draw->AddRectFilled({issued, y}, {used, y + stroke}, colour);
  // With an edge, so that it shows on bars of every colour.
  const auto diamond = [&](float size, Colour fill) {
    draw->AddQuadFilled({used - size, y}, {used, y - size}, {used + size, y}, {used, y + size},
                        fill);
  };
  diamond(r + stroke, ui.theme.panel);
  diamond(r, late ? ui.colours().fail : ui.theme.text);
}

}  // namespace tessera::inspector
