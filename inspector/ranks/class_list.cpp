// SPDX-License-Identifier: Apache-2.0
#include "inspector/ranks/class_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "inspector/widgets/drawing.h"
#include "inspector/widgets/format.h"

namespace tessera::inspector {
namespace {

using analysis::RankClass;

constexpr std::size_t classes_shown = 6, ranges_named = 2;

// "16,383 ranks", "rank 5120", "ranks 3-5 and 9", "5 ranks from 3 on".
std::string name_of_class(const RankClass& of, bool largest) {
  if (largest) return format_many(of.count, "rank");
  if (of.ranges.size() > ranges_named) {
    return fmt::format("{} from {} on", format_many(of.count, "rank"), of.ranges.front().first);
  }
  std::string words = of.count == 1 ? "rank " : "ranks ";
  for (std::size_t k = 0; k < of.ranges.size(); ++k) {
    const auto& [first, last] = of.ranges[k];
    if (k > 0) words += " and ";
    words += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return words;
}

std::optional<Rank> recorded_of(const TraceModel& model, const RankClass& of) {
  for (const auto& [first, last] : of.ranges) {
    for (Rank rank = first; rank <= last; ++rank) {
      if (model.recorded(rank)) return rank;
    }
  }
  return {};
}

}  // namespace

void ClassList::find_out(TraceModel& model) {
  // Each metric is asked for in turn: a thread may still be looking.
  std::array<const std::vector<analysis::Outlier>*, analysis::step_metric_count> found{};
  for (int m = 0; m < analysis::step_metric_count; ++m) {
    found[static_cast<std::size_t>(m)] = model.metrics().outliers(static_cast<analysis::Metric>(m));
  }
  if (std::find(found.begin(), found.end(), nullptr) != found.end()) return;
  classes_ = analysis::rank_classes(
      model.rank_count(), [&](analysis::Metric metric) -> const auto& {
        return *found[static_cast<std::size_t>(metric)];
      });
}

void ClassList::draw(const Surface& ui, TraceModel& model, ViewState& state) {
  if (!classes_) find_out(model);
  if (!classes_ || classes_->size() < 2) return;
  heading(ui, "Ranks that are alike");
  for (std::size_t k = 0; k < std::min(classes_shown, classes_->size()); ++k) {
    const RankClass& of = (*classes_)[k];
    const std::string name = name_of_class(of, k == 0), what = words_of(of);
    const std::string words = what.empty() ? "as usual" : what;
    ImGui::PushID(static_cast<int>(k));
    const ImVec2 at = ImGui::GetCursorScreenPos();
    const float width = std::max(ImGui::GetContentRegionAvail().x, 1.0F);
    const float left = 0.42F * width;  // as the list of ranks that stand out
    const WrappedText text(ui.fonts.body, words, width - left);
    if (ImGui::Selectable("##class", false, 0, {0, text.height()})) {
      if (const auto rank = recorded_of(model, of)) state.open_rank(*rank);
    }
    ImGui::PushFont(ui.fonts.body);
    draw_text(ui.fonts.body, at, ui.theme.text, fitted(name, left - ui.theme.px(8)));
    ImGui::PopFont();
    text.draw({at.x + left, at.y}, ui.theme.dim);
    state.fields[fmt::format("overview/class/{}", k)] = name + ": " + words;
    ImGui::PopID();
  }
  if (classes_->size() > classes_shown) {
    ImGui::TextDisabled("and %zu more", classes_->size() - classes_shown);
  }
  ImGui::Dummy({0, ui.theme.px(12)});
}

}  // namespace tessera::inspector
