// SPDX-License-Identifier: Apache-2.0
// Who holds memory at a moment, as a picture: all of it, below that units, below each its classes,
// below each their buffers, as wide as they are large.
//
// The idea: a list says who is largest; a picture says what it is a part of. Units lie in the order
// of the model, so that nothing jumps while the moment moves.
#pragma once

#include <string>
#include <vector>

#include "inspector/model/view_state.h"
#include "inspector/render/surface.h"
#include "tessera/analysis/memory_holders.h"

namespace tessera::inspector {

/// A rectangle of the picture. Shares are of its whole width.
struct IciclePart {
  int level = 0;  // 0 all, 1 a unit, 2 a class, 3 buffers of one name
  double from = 0, to = 0;
  Bytes bytes{};
  std::string unit;
  MemoryClass memory_class = MemoryClass::unknown;
  std::string buffer;
};

/// What is held on the device; of one unit alone, if it is named. Each part lies below the one that
/// it is a part of, and parts of one level do not overlap.
std::vector<IciclePart> icicle_of(const analysis::MemoryMoment& moment, const std::string* unit);

class MemoryIcicle {
 public:
  /// A click on a unit shows it alone, another shows all. Returns the lower edge.
  float draw(const Surface& ui, ViewState& state, const analysis::MemoryMoment& moment,
             const Box& box);

 private:
  std::string unit_;  // shown alone
  bool alone_ = false;
};

}  // namespace tessera::inspector
