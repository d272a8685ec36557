// SPDX-License-Identifier: Apache-2.0
// What modules do over time, a strip each: above what they compute, in the middle their
// collectives, below when their parameters are gathered.
//
// The idea: all strips of a frame are one texture with three rows each, so that a strip costs three
// quads however much happens in it.
#pragma once

#include <array>
#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/modules/module_memory.h"
#include "inspector/modules/module_tree.h"
#include "inspector/render/surface.h"

namespace tessera::inspector {

class ModuleStrips {
 public:
  /// Draws `rank` in the view of `state`, strip k from tops[k] on, `height` high. `strip_of`: by
  /// node, -1 where it has none in sight. `memory`: nullptr without samples.
  void draw(Surface& ui, TraceModel& model, const ViewState& state, const ModuleTree& tree,
            const ModuleMemory* memory, const std::vector<int>& strip_of,
            const std::vector<float>& tops, float height, const TimeStretch& stretch);
  /// What the last frame showed.
  bool seen(OpClass op_class) const { return seen_[static_cast<std::size_t>(op_class)]; }
  bool seen_gathered() const { return seen_gathered_; }

 private:
  /// One pixel of a strip.
  struct Cell {
    float busy = 0;     // share of its time
    float longest = 0;  // of one span
    Colour colour = 0;  // of that span
  };
  enum Band : std::uint8_t { compute, communication, gathered };
  void begin(const ViewState& state, std::size_t strips, const TimeStretch& stretch);
  void add(int strip, Band band, Time begin, Time end, Colour colour);
  void add_lane(const Surface& ui, TraceModel& model, const LaneData& lane, Band band,
                const ModuleTree& tree, const std::vector<int>& strip_of);
  void add_gathered(const Surface& ui, const ModuleTree& tree, const ModuleMemory& memory,
                    const std::vector<int>& strip_of);
  void upload(Surface& ui);

  Time from_ = 0;
  double per_px_ = 1;  // ns
  int width_ = 1;
  std::vector<Cell> cells_;  // of all strips, three rows each
  ImTextureID texture_ = nullptr;
  std::array<bool, op_class_count> seen_{};
  bool seen_gathered_ = false;
};

}  // namespace tessera::inspector
