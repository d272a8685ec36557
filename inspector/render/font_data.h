// SPDX-License-Identifier: Apache-2.0
// The font files that the build put into the library (SIL Open Font License).
#pragma once

#include <cstddef>
#include <span>

namespace tessera::inspector {

std::span<const unsigned char> inter_regular();
std::span<const unsigned char> inter_semibold();
std::span<const unsigned char> jetbrains_mono();

}  // namespace tessera::inspector
