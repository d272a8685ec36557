// SPDX-License-Identifier: Apache-2.0
// Compares pictures with the ones in tests/golden/inspector/, pixel by pixel.
//
//   TEST_CASE("the memory panel in dark", "[inspector]") { check_golden(picture, "memory_dark"); }
//
// To accept new pictures: `cmake --build build/dev --target update_inspector_golden`, then look at
// the difference in git.
#pragma once

#include <string>

#include "inspector/render/frame_buffer.h"

namespace tessera::inspector {

/// The last bit of what smooth edges are drawn from depends on the CPU's make: ImGui normalises by
/// the instruction rsqrtss, whose estimates differ between makers.
inline constexpr int edge_tolerance = 2;

/// CHECKs that `picture` equals golden `name`.png, no channel of a pixel further apart than
/// `tolerance` (of 255). If not, writes <name>.actual.png and
/// <name>.difference.png into <build>/tests/golden/ and names them in the failure. In updating
/// mode writes the golden instead.
void check_golden(const FrameBuffer& picture, const std::string& name,
                  int tolerance = edge_tolerance);

}  // namespace tessera::inspector
