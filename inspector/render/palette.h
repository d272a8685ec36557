// SPDX-License-Identifier: Apache-2.0
// The colours of meaning: operations, memory classes, scales and states, in dark and light.
//
// The idea: same hue = same meaning everywhere (yellow = gathered, orange = gradients and reduce,
// blue = compute and parameters). The sets were chosen to stay apart with red-, green- and
// blue-blind sight, yet nothing may be told by colour alone: add a label, a lane or a hatch.
//
//   const Palette& colours = palette(ThemeKind::dark);
//   draw->AddRectFilled(a, b, colours.of(OpClass::all_gather));
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "tessera/inspector/inspector.h"
#include "tessera/memory_class.h"

namespace tessera::inspector {

/// 0xAABBGGRR, ImGui's IM_COL32 (not included here, so models and tests need no ImGui).
using Colour = std::uint32_t;

/// `rgb(0x376FD0)`: opaque colour from the usual RRGGBB notation.
constexpr Colour rgb(std::uint32_t rrggbb) {
  return 0xFF000000U | (rrggbb & 0xFFU) << 16 | (rrggbb & 0xFF00U) | rrggbb >> 16;
}
/// `c` with opacity `alpha` in 0..255.
constexpr Colour with_alpha(Colour c, std::uint32_t alpha) { return (c & 0xFFFFFFU) | alpha << 24; }
/// `a` at t = 0, `b` at t = 256; channel by channel, alpha too. REQUIRES: 0 <= t <= 256.
Colour mix(Colour a, Colour b, int t);

enum class OpClass : std::uint8_t {
  forward,
  backward,
  optimizer,  // and other compute
  all_gather,
  reduce_scatter,  // and reduce
  all_reduce,      // and broadcast
  host,            // host work, copies and offload
  recompute,
};
inline constexpr int op_class_count = 8;

/// "forward", ..., for legends.
std::string_view name_of(OpClass op_class);

struct Palette {
  std::array<Colour, op_class_count> operations;
  std::array<Colour, memory_class_count> memory;
  Colour ok, warn, fail;  // with an icon beside them: U+2713, U+26A0, U+2717
  Colour diverging_low, diverging_middle, diverging_high;
  Colour ink_dark, ink_light;  // text on coloured bars

  Colour of(OpClass c) const { return operations[static_cast<std::size_t>(c)]; }
  Colour of(MemoryClass c) const { return memory[static_cast<std::size_t>(c)]; }
};

const Palette& palette(ThemeKind kind);

/// Device memory from the bottom of the stack to the top: lasting classes (with the inputs) below
/// what comes and goes, in an order that keeps similar colours apart. pinned_host and nvme_staging
/// are not on the device: draw them apart.
/// reserved_unused (last) also gets a hatch.
inline constexpr std::array<MemoryClass, 14> device_memory_stack = {
    MemoryClass::unknown,
    MemoryClass::communication_library,
    MemoryClass::buffers,
    MemoryClass::optimizer_state,
    MemoryClass::inputs,
    MemoryClass::sharded_parameters,
    MemoryClass::sharded_gradients,
    MemoryClass::activations,
    MemoryClass::unsharded_gradients,
    MemoryClass::temporary,
    MemoryClass::reduce_buffers,
    MemoryClass::unsharded_parameters,
    MemoryClass::all_gather_buffers,
    MemoryClass::reserved_unused};
inline constexpr std::array<MemoryClass, 2> host_memory_stack = {MemoryClass::pinned_host,
                                                                 MemoryClass::nvme_staging};

/// Cividis: dark blue at 0 to yellow at 1, monotonic in lightness, for every kind of sight. Map the
/// median to 0 and the 99.9th percentile to 1. Values outside and NaN are clamped.
Colour sequential(double t);

/// -1 (B earlier, blue) to 0 (equal, near the ground) to +1 (B later, orange). Clamped.
Colour diverging(ThemeKind kind, double t);

/// The ink that reads better on `bar`: dark or white.
Colour text_on(Colour bar);

/// WCAG 2 contrast ratio, 1..21; alpha is ignored.
double contrast(Colour a, Colour b);

}  // namespace tessera::inspector
