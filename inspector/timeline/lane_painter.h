// SPDX-License-Identifier: Apache-2.0
// Draws lanes of spans: bars with labels where they are wide enough, merged columns elsewhere.
//
// The idea: all merged columns of a frame go into one texture, a row per lane, so that a lane costs
// one quad however many spans it holds.
#pragma once

#include <string>
#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "inspector/timeline/operation_legend.h"
#include "inspector/timeline/prefetch_marks.h"

namespace tessera::inspector {

class LanePainter {
 public:
  /// Lanes share the time axis between x = left and left + width.
  void begin(Surface& ui, TraceModel& model, const ViewState& state, float left, float width);
  /// A lane at `y`; `detailed` lanes get labels, hatches and exposed marks.
  void lane(Rank rank, std::int32_t stream, float y, float height, bool detailed);
  /// The memory of a rank between `y` and `y + height`, if it has samples; false: it has none.
  bool memory(Rank rank, float y, float height);
  /// Draws all lanes, without their labels.
  void finish();
  /// The labels, over all that was drawn since: lines that cross a bar leave its text readable.
  void draw_labels();

  std::int64_t visited() const { return visited_; }
  /// The marks that the last frame drew.
  const SeenMarks& seen() const { return seen_; }

 private:
  struct Lane {
    Rank rank;
    std::int32_t stream;
    float y, height;
    bool detailed;
    std::vector<LaneColumn> columns;
    std::vector<std::size_t> wide;
  };
  struct Label {
    ImVec2 at;
    Colour bar;
    std::string words;
  };
  const SpanPyramid* pyramid_of(Rank rank, std::int32_t stream);
  void upload();
  Colour colour_of(const LaneColumn& column);
  void draw_bar(const Lane& lane, std::size_t index);
  void draw_wait(const Lane& lane, float x0, float x1, Colour colour);
  void draw_prefetches(const Lane& lane);
  void draw_exposed(const Lane& lane, std::size_t index, Colour bar);
  void add_label(const Lane& lane, std::size_t index, float x0, float x1, Colour bar);
  float x_of(Time time) const { return state_->time.x_of(time, left_, width_); }

  Surface* ui_ = nullptr;
  TraceModel* model_ = nullptr;
  const ViewState* state_ = nullptr;
  ImDrawList* draw_ = nullptr;
  float left_ = 0, width_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Label> labels_;
  ImTextureID texture_ = nullptr;
  int texture_width_ = 0, texture_height_ = 0;
  std::int64_t visited_ = 0;
  SeenMarks seen_;
  PrefetchMarks prefetches_;
};

/// The span of `stream` on `rank` at `time`, allowing `slack` ns beside narrow ones.
std::optional<SpanRef> span_at(TraceModel& model, Rank rank, std::int32_t stream, Time time,
                               Time slack);

}  // namespace tessera::inspector
