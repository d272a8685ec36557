// SPDX-License-Identifier: Apache-2.0
#include "inspector/timeline/lane_painter.h"

#include <algorithm>
#include <cmath>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/memory_stack.h"
#include "inspector/widgets/op_text.h"

namespace tessera::inspector {
namespace {

constexpr double merged_px = 3;    // narrower spans are merged
constexpr int faint_wait = 72;     // of 256: waiting is no work
constexpr int faintest_work = 56;  // even a short span shows

// What tells the bar from its neighbours, as far as there is room.
std::string bar_text(const TraceRun& run, const storage::OpRow& op, float width) {
  const std::string name = foreign_name(run, op);
  if (!name.empty()) return fitted_middle(name, width);
  const std::string unit = short_name(op.unit);
  if (op.kind == OpKind::compute) {
    const std::string module = short_name(op.module);
    return module.empty() ? fitted(title_of(op), width) : fitted_path(module, width);
  }
  const std::string full =
      op.kind == OpKind::copy ? title_of(op) + " " + unit : unit + "  " + format_bytes(op.bytes);
  return ImGui::CalcTextSize(full.c_str()).x <= width ? full : fitted_path(unit, width);
}

}  // namespace

std::optional<SpanRef> span_at(TraceModel& model, Rank rank, std::int32_t stream, Time time,
                               Time slack) {
  if (model.crowded()) return {};
  const LaneData* lane = model.rank(rank).lane(stream);
  if (lane == nullptr || lane->pyramid->size() == 0) return {};
  const SpanPyramid& spans = *lane->pyramid;
  const std::size_t i = spans.first_ending_after(time);
  if (i < spans.size() && spans.begin(i) <= time) return SpanRef{rank, stream, lane->spans.op[i]};
  if (i < spans.size() && spans.begin(i) - time <= slack)
    return SpanRef{rank, stream, lane->spans.op[i]};
  if (i > 0 && time - spans.end(i - 1) <= slack)
    return SpanRef{rank, stream, lane->spans.op[i - 1]};
  return {};
}

void LanePainter::begin(Surface& ui, TraceModel& model, const ViewState& state, float left,
                        float width) {
  ui_ = &ui;
  model_ = &model;
  state_ = &state;
  draw_ = ImGui::GetWindowDrawList();
  left_ = left;
  width_ = width;
  lanes_.clear();
  visited_ = 0;
  seen_ = {};
}

const SpanPyramid* LanePainter::pyramid_of(Rank rank, std::int32_t stream) {
  if (model_->crowded()) {
    const CoarseRank* const sums = model_->coarse(rank);
    return sums == nullptr ? nullptr : sums->lane(stream);
  }
  const LaneData* const data = model_->rank(rank).lane(stream);
  return data == nullptr ? nullptr : data->pyramid.get();
}

void LanePainter::lane(Rank rank, std::int32_t stream, float y, float height, bool detailed) {
  Lane lane{rank, stream, y, height, detailed, {}, {}};
  if (const SpanPyramid* const spans = pyramid_of(rank, stream)) {
    lane.columns = spans->columns(
        state_->time.from(), state_->time.to(), static_cast<int>(width_), merged_px,
        [&](std::size_t i) { lane.wide.push_back(i); }, &visited_);
  }
  lanes_.push_back(std::move(lane));
}

bool LanePainter::memory(Rank rank, float y, float height) {
  const RankMemory& memory = model_->memory(rank);
  if (memory.pyramid == nullptr) return false;
  // All strips together are about as many rectangles as one plot.
  const auto ranks = static_cast<float>(model_->run().recorded_ranks.size());
  const float column_px = std::max(plot_column_px(width_), std::ceil(ranks / 2));
  const MemoryScale scale = memory_scale(*model_, *memory.pyramid, y, y + height);
  draw_->PushClipRect({left_, y}, {left_ + width_, y + height}, true);
  seen_.memory |= draw_memory_stack(*ui_, *memory.pyramid, state_->time, model_->info().end, scale,
                                    {left_, width_}, {column_px, /*hatched=*/false});
  const auto capacity = static_cast<double>(model_->run().memory_per_rank.value);
  if (capacity > 0 && capacity < scale.top) {
    draw_dashes(left_, left_ + width_, scale.y_of(capacity), ui_->colours().fail, ui_->theme.px(5));
    seen_.capacity = true;
  }
  draw_->PopClipRect();
  draw_->AddRectFilled({left_, y + height - 1}, {left_ + width_, y + height}, ui_->theme.line);
  return true;
}

// Work at full strength, waiting as faint as where bars are wide enough to tell them apart.
Colour LanePainter::colour_of(const LaneColumn& column) {
  const double work = column.busy - column.wait;
  const int strength =
      std::clamp(static_cast<int>(work * 256 + column.wait * faint_wait), faintest_work, 256);
  seen_.classes[static_cast<std::size_t>(column.dominant)] = true;
  seen_.waits |= column.wait > 0.05;
  seen_.merged |= column.busy < 0.95;
  return mix(ui_->theme.panel, ui_->colours().of(column.dominant), strength);
}

void LanePainter::upload() {
  const int width = std::max(1, static_cast<int>(width_));
  const int height = std::max<int>(1, static_cast<int>(lanes_.size()));
  Texture texture{width, height,
                  std::vector<std::uint32_t>(static_cast<std::size_t>(width * height)),
                  Sampling::nearest};
  for (std::size_t row = 0; row < lanes_.size(); ++row) {
    for (std::size_t x = 0; x < lanes_[row].columns.size(); ++x) {
      const LaneColumn& column = lanes_[row].columns[x];
      if (column.busy <= 0) continue;
      texture.pixels[row * static_cast<std::size_t>(width) + x] = colour_of(column);
    }
  }
  if (texture_ == nullptr) {
    texture_ = ui_->textures.create(std::move(texture));
  } else {
    ui_->textures.update(texture_, std::move(texture));
  }
  texture_width_ = width;
  texture_height_ = height;
}

void LanePainter::finish() {
  labels_.clear();
  if (lanes_.empty()) return;
  upload();
  for (std::size_t row = 0; row < lanes_.size(); ++row) {
    const Lane& lane = lanes_[row];
    const float v = (static_cast<float>(row) + 0.5F) / static_cast<float>(texture_height_);
    draw_->AddImage(texture_, ImVec2(left_, lane.y),
                    ImVec2(left_ + static_cast<float>(texture_width_), lane.y + lane.height),
                    ImVec2(0, v), ImVec2(1, v));
    ImGui::PushFont(ui_->fonts.small);
    for (std::size_t index : lane.wide) draw_bar(lane, index);
    ImGui::PopFont();
  }
  for (const Lane& lane : lanes_) draw_prefetches(lane);  // over all bars
}

void LanePainter::draw_prefetches(const Lane& lane) {
  if (!lane.detailed || model_->stream(lane.stream).role != StreamRole::communication) return;
  const PrefetchMarks::Strip strip{{left_, lane.y}, {left_ + width_, lane.y + lane.height}};
  for (const std::size_t index : lane.wide) {
    prefetches_.draw(*ui_, *model_, *state_, {lane.rank, lane.stream, index}, strip, seen_);
  }
}

void LanePainter::draw_wait(const Lane& lane, float x0, float x1, Colour colour) {
  const Colour faint = mix(ui_->theme.panel, colour, faint_wait);
  seen_.waits = true;
  draw_->AddRectFilled(ImVec2(x0, lane.y), ImVec2(x1, lane.y + lane.height), faint);
  if (!lane.detailed || x1 - x0 < 8) return;
  const Colour stroke = mix(ui_->theme.panel, colour, 150);
  draw_->PushClipRect(ImVec2(x0, lane.y), ImVec2(x1, lane.y + lane.height), true);
  const float step = ui_->theme.px(7);
  for (float x = std::floor(x0 / step) * step - lane.height; x < x1; x += step) {
    draw_->AddLine(ImVec2(x, lane.y + lane.height), ImVec2(x + lane.height, lane.y), stroke,
                   ui_->theme.px(1));
  }
  draw_->PopClipRect();
}

// Communication that nothing hides: a bright line along the bar's foot.
void LanePainter::draw_exposed(const Lane& lane, std::size_t index, Colour bar) {
  const RankData& rank = model_->rank(lane.rank);
  const storage::Lane& spans = rank.lane(lane.stream)->spans;
  const Colour ink = contrast(bar, ui_->theme.text) > 1.6 ? ui_->theme.text : text_on(bar);
  const float thick = ui_->theme.px(2);
  for (auto [begin, end] :
       analysis::exposed_parts(rank.compute, spans.begin[index], spans.end[index])) {
    const float x0 = std::max(left_, std::floor(x_of(begin)));
    const float x1 = std::min(left_ + width_, std::floor(x_of(end)));
    if (x1 - x0 < 1) continue;
    seen_.exposed = true;
    draw_->AddRectFilled(ImVec2(x0, lane.y + lane.height - thick), ImVec2(x1, lane.y + lane.height),
                         ink);
  }
}

void LanePainter::add_label(const Lane& lane, std::size_t index, float x0, float x1, Colour bar) {
  const float pad = ui_->theme.px(4);
  const float room = x1 - x0 - 2 * pad;
  if (room < ui_->theme.px(8)) return;
  const auto& spans = model_->rank(lane.rank).lane(lane.stream)->spans;
  const std::string text = bar_text(model_->run(), model_->op(spans.op[index]), room);
  if (text.empty()) return;
  const float y = lane.y + (lane.height - ImGui::GetFontSize()) / 2;
  labels_.push_back({{std::floor(x0 + pad), std::floor(y)}, bar, text});
}

// On a ground of the bar's colour: what crosses the bar passes behind the words.
void LanePainter::draw_labels() {
  const float pad = ui_->theme.px(2);
  ImFont* const font = ui_->fonts.small;
  for (const auto& [at, bar, words] : labels_) {
    draw_->AddRectFilled({at.x - pad, at.y},
                         {at.x + text_width(font, words) + pad, at.y + font->FontSize}, bar);
    draw_text(font, at, text_on(bar), words);
  }
}

void LanePainter::draw_bar(const Lane& lane, std::size_t index) {
  const LaneData& data = *model_->rank(lane.rank).lane(lane.stream);
  const Colour colour = ui_->colours().of(data.pyramid->op_class(index));
  const float right = left_ + width_;
  const float x0 = std::clamp(std::floor(x_of(data.spans.begin[index])), left_, right);
  float x1 = std::clamp(std::floor(x_of(data.spans.end[index])), left_, right);
  if (x1 - x0 >= 4) x1 -= 1;  // neighbours stay apart
  if (x1 <= x0) return;
  seen_.classes[static_cast<std::size_t>(data.pyramid->op_class(index))] = true;
  const float ready = std::clamp(std::floor(x_of(data.spans.ready[index])), x0, x1);
  if (ready > x0) draw_wait(lane, x0, ready, colour);
  if (x1 > ready) {
    draw_->AddRectFilled(ImVec2(ready, lane.y), ImVec2(x1, lane.y + lane.height), colour);
  }
  if (lane.detailed) {
    const bool communication = model_->stream(lane.stream).role == StreamRole::communication;
    if (communication) draw_exposed(lane, index, colour);
    if (x1 - ready > ui_->theme.px(24)) {
      add_label(lane, index, ready, x1, colour);
    } else {
      add_label(lane, index, x0, ready, mix(ui_->theme.panel, colour, faint_wait));
    }
  }
}

}  // namespace tessera::inspector
