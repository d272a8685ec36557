// SPDX-License-Identifier: Apache-2.0
#include "inspector/modules/module_strips.h"

#include <algorithm>
#include <cmath>

namespace tessera::inspector {
namespace {

constexpr int bands = 3;
constexpr int texture_rows_max = 2048;
constexpr float faintest = 0.25F;  // of what takes a small part of its pixel: it is seen

/// Top and bottom of a band, as parts of the strip.
struct Place {
  float top, bottom;
};
constexpr Place places[bands] = {{0.12F, 0.54F}, {0.58F, 0.76F}, {0.80F, 0.92F}};

}  // namespace

void ModuleStrips::begin(const ViewState& state, std::size_t strips, const TimeStretch& stretch) {
  from_ = state.time.from();
  per_px_ = state.time.ns_per_px(stretch.width);
  width_ = std::clamp(static_cast<int>(stretch.width), 1, 16384);
  cells_.assign(strips * bands * static_cast<std::size_t>(width_), {});
  seen_ = {};
  seen_gathered_ = false;
}

void ModuleStrips::add(int strip, Band band, Time begin, Time end, Colour colour) {
  const double x0 = std::max(0.0, static_cast<double>(begin - from_) / per_px_);
  const double x1 = std::min<double>(width_, static_cast<double>(end - from_) / per_px_);
  if (x1 < 0 || x0 >= width_) return;
  const std::size_t row = static_cast<std::size_t>(strip * bands + band);
  Cell* const cells = cells_.data() + row * static_cast<std::size_t>(width_);
  const auto length = static_cast<float>(x1 - x0);
  const int last = std::min(width_ - 1, static_cast<int>(x1));
  for (int x = static_cast<int>(x0); x <= last; ++x) {
    const double share = std::min<double>(x1, x + 1) - std::max<double>(x0, x);
    if (share <= 0 && length > 0) continue;
    Cell& cell = cells[x];
    cell.busy += static_cast<float>(share);
    if (length < cell.longest) continue;
    cell.longest = length;
    cell.colour = colour;
  }
}

void ModuleStrips::add_lane(const Surface& ui, TraceModel& model, const LaneData& lane, Band band,
                            const ModuleTree& tree, const std::vector<int>& strip_of) {
  const Time to = from_ + static_cast<Time>(per_px_ * width_);
  const storage::Lane& spans = lane.spans;
  for (std::size_t i = lane.pyramid->first_ending_after(from_); i < spans.op.size(); ++i) {
    if (spans.begin[i] >= to) break;
    const int node = tree.of(model.op(spans.op[i]));
    const OpClass op_class = lane.pyramid->op_class(i);
    // A strip shows the work of the nodes below it, too; that of the model as a whole only its own.
    for (int n = node; n >= 0; n = tree.node(n).parent) {
      const int strip = strip_of[static_cast<std::size_t>(n)];
      if (strip < 0 || (n == 0 && node != 0)) continue;
      add(strip, band, spans.begin[i], spans.end[i], ui.colours().of(op_class));
      seen_[static_cast<std::size_t>(op_class)] = true;
    }
  }
}

void ModuleStrips::add_gathered(const Surface& ui, const ModuleTree& tree,
                                const ModuleMemory& memory, const std::vector<int>& strip_of) {
  const Time to = from_ + static_cast<Time>(per_px_ * width_);
  const Colour colour = ui.colours().of(MemoryClass::unsharded_parameters);
  for (int node = 0; node < tree.size(); ++node) {
    const auto stretches = memory.gathered(node);
    auto it =
        std::lower_bound(stretches.begin(), stretches.end(), from_,
                         [](const ModuleMemory::Stretch& s, Time time) { return s.end < time; });
    for (; it != stretches.end() && it->begin < to; ++it) {
      for (int n = node; n >= 0; n = tree.node(n).parent) {
        const int strip = strip_of[static_cast<std::size_t>(n)];
        if (strip < 0 || (n == 0 && node != 0)) continue;
        add(strip, gathered, it->begin, std::min(it->end, to), colour);
        seen_gathered_ = true;
      }
    }
  }
}

void ModuleStrips::upload(Surface& ui) {
  const auto rows = static_cast<int>(cells_.size() / static_cast<std::size_t>(width_));
  Texture texture{width_, rows, std::vector<std::uint32_t>(cells_.size()), Sampling::nearest};
  for (std::size_t k = 0; k < cells_.size(); ++k) {
    const Cell& cell = cells_[k];
    if (cell.colour == 0) continue;
    const float share = std::clamp(cell.busy, faintest, 1.0F);
    texture.pixels[k] = mix(ui.theme.panel, cell.colour, static_cast<int>(256 * share));
  }
  if (texture_ == nullptr) {
    texture_ = ui.textures.create(std::move(texture));
  } else {
    ui.textures.update(texture_, std::move(texture));
  }
}

void ModuleStrips::draw(Surface& ui, TraceModel& model, const ViewState& state,
                        const ModuleTree& tree, const ModuleMemory* memory,
                        const std::vector<int>& strip_of, const std::vector<float>& tops,
                        float height, const TimeStretch& stretch) {
  const std::size_t strips = std::min<std::size_t>(tops.size(), texture_rows_max / bands);
  if (strips == 0) return;
  begin(state, strips, stretch);
  static const std::vector<LaneData> none;  // a crowd: what is in memory is elsewhere
  for (const LaneData& lane : model.crowded() ? none : model.rank(state.rank).lanes) {
    const StreamRole role = model.stream(lane.spans.stream).role;
    const Band band = role == StreamRole::communication ? communication : compute;
    if (role == StreamRole::compute || role == StreamRole::communication) {
      add_lane(ui, model, lane, band, tree, strip_of);
    }
  }
  if (memory != nullptr) add_gathered(ui, tree, *memory, strip_of);
  upload(ui);
  const auto rows = static_cast<float>(strips * bands);
  for (std::size_t k = 0; k < strips; ++k) {
    for (std::size_t b = 0; b < bands; ++b) {
      const float v = (static_cast<float>(k * bands + b) + 0.5F) / rows;
      const float top = std::floor(tops[k] + places[b].top * height);
      const float bottom = std::max(top + 1, std::floor(tops[k] + places[b].bottom * height));
      ImGui::GetWindowDrawList()->AddImage(texture_, {stretch.left, top},
                                           {stretch.left + static_cast<float>(width_), bottom},
                                           {0, v}, {1, v});
    }
  }
}

}  // namespace tessera::inspector
