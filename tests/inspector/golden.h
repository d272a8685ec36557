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

/// CHECKs that `picture` equals golden `name`.png exactly. If not, writes <name>.actual.png and
/// <name>.difference.png into <build>/tests/golden/ and names them in the failure. In updating
/// mode writes the golden instead.
void check_golden(const FrameBuffer& picture, const std::string& name);

}  // namespace tessera::inspector
