// SPDX-License-Identifier: Apache-2.0
#include "inspector/communication/transfer_scatter.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "inspector/communication/usage_table.h"
#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"
#include "inspector/widgets/show_op.h"
#include "inspector/widgets/value_axis.h"

namespace tessera::inspector {
namespace {

constexpr float scatter_axis = 84;

// Barriers move nothing, and have a place all the same.
double size_of(const analysis::TransferPoint& point) {
  return std::max<double>(1, static_cast<double>(point.bytes.value));
}

// Lines at round sizes and rates, with numbers where there is room for them.
void draw_marks(const Surface& ui, const Box& plot, const LogAxis& across, const LogAxis& up) {
  ImDrawList* draw = ImGui::GetWindowDrawList();
  float free = plot.min.x - plot.width();
  for (const double mark : across.marks()) {
    const float x = std::floor(plot.min.x + across.place(mark));
    draw->AddRectFilled({x, plot.min.y}, {x + 1, plot.max.y}, ui.theme.line);
    const std::string label = format_bytes(Bytes{std::llround(mark)});
    const float half = text_width(ui.fonts.small, label) / 2;
    if (x - half < free) continue;
    draw_text(ui.fonts.small, {x - half, plot.max.y + ui.theme.px(6)}, ui.theme.dim, label);
    free = x + half + ui.theme.px(8);
  }
  float above = plot.max.y + plot.height();
  for (const double mark : up.marks()) {
    const float y = std::floor(plot.max.y - up.place(mark));
    draw->AddRectFilled({plot.min.x, y}, {plot.max.x, y + 1}, ui.theme.line);
    if (above - y < ui.fonts.small->FontSize + ui.theme.px(2)) continue;
    draw_text_right(ui.fonts.small, {plot.min.x - ui.theme.px(8), y - ui.fonts.small->FontSize / 2},
                    ui.theme.dim, format_rate(mark));
    above = y;
  }
}

// What links carry at most, a dashed line each.
void draw_links(const Surface& ui, const Box& plot, const LogAxis& up,
                const std::set<double>& links) {
  for (const double link : links) {
    const float y = std::floor(plot.max.y - up.place(link));
    draw_dashes(plot.min.x, plot.max.x, y, ui.colours().warn, ui.theme.px(4));
    const std::string words = "links carry " + format_rate(link);
    const float wide = text_width(ui.fonts.small, words);
    if (wide + ui.theme.px(16) > plot.width()) continue;
    draw_text(ui.fonts.small, {plot.max.x - wide - ui.theme.px(8), y + ui.theme.px(4)},
              ui.theme.text, words);
  }
}

}  // namespace

void draw_transfer_scatter(const Surface& ui, TraceModel& model, ViewState& state,
                           const std::vector<analysis::TransferPoint>& points, const Box& box) {
  const Theme& theme = ui.theme;
  const Box plot{{box.min.x + theme.px(scatter_axis), box.min.y + theme.px(40)},
                 {box.max.x - theme.px(24), box.max.y - theme.px(36)}};
  if (points.empty() || plot.width() < theme.px(120) || plot.height() < theme.px(80)) return;
  draw_text(ui.fonts.strong, {box.min.x + theme.px(14), box.min.y + theme.px(10)}, theme.text,
            "Bus bandwidth by size of a collective");
  std::set<double> links;
  double least = 1e300, most = 0, slow = 1e300, fast = 0;
  for (const auto& point : points) {
    least = std::min(least, size_of(point));
    most = std::max(most, size_of(point));
    slow = std::min(slow, point.bus_bandwidth);
    fast = std::max({fast, point.bus_bandwidth, point.link_bandwidth});
    if (point.link_bandwidth > 0) links.insert(point.link_bandwidth);
  }
  const LogAxis across(least, most, plot.width()), up(slow, fast, plot.height());
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw_marks(ui, plot, across, up);
  draw_links(ui, plot, up, links);
  const float r = theme.px(4);
  const analysis::TransferPoint* nearest = nullptr;
  // Points on the same pixels are drawn once, those of several kinds beside each other.
  std::map<std::pair<int, int>, std::vector<OpKind>> drawn;
  for (const auto& point : points) {
    ImVec2 at{std::floor(plot.min.x + across.place(size_of(point))),
              std::floor(plot.max.y - up.place(point.bus_bandwidth))};
    std::vector<OpKind>& there = drawn[{static_cast<int>(at.x), static_cast<int>(at.y)}];
    const auto same = std::find(there.begin(), there.end(), point.kind);
    const bool again = same != there.end();
    at.x += static_cast<float>(same - there.begin()) * 2 * r;
    const Box place{{at.x - r, at.y - r}, {at.x + r, at.y + r}};
    if (place.contains(ImGui::GetIO().MousePos) && ImGui::IsWindowHovered()) nearest = &point;
    if (again) continue;
    there.push_back(point.kind);
    draw->AddRectFilled(place.min, place.max, colour_of_kind(ui, point.kind), theme.px(2));
  }
  if (nearest == nullptr) return;
  const storage::OpRow& op = model.op(nearest->op);
  ImGui::SetTooltip("%s %s, step %d\n%s, %s", std::string(name_of(op.kind)).c_str(),
                    op.unit.c_str(), op.step, format_bytes(op.bytes).c_str(),
                    format_rate(nearest->bus_bandwidth).c_str());
  if (ImGui::IsMouseClicked(0)) show_op(model, state, state.rank, nearest->op);
}

}  // namespace tessera::inspector
