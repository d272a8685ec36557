// SPDX-License-Identifier: Apache-2.0
#include "inspector/render/font_data.h"

// The assembler's .incbin copies the files of the CMake variables TESSERA_FONT_* in: no generated
// source of a megabyte, nothing to look for at run time.
#define TESSERA_EMBED(name, file)      \
  __asm__(                             \
      ".section .rodata\n.balign 16\n" \
      ".hidden tessera_font_" name     \
      "\n"                             \
      ".globl tessera_font_" name      \
      "\n"                             \
      "tessera_font_" name             \
      ":\n"                            \
      ".incbin \"" file                \
      "\"\n"                           \
      ".hidden tessera_font_" name     \
      "_end\n"                         \
      ".globl tessera_font_" name      \
      "_end\n"                         \
      "tessera_font_" name "_end:\n.byte 0\n.text\n")

TESSERA_EMBED("regular", TESSERA_FONT_REGULAR);
TESSERA_EMBED("semibold", TESSERA_FONT_SEMIBOLD);
TESSERA_EMBED("mono", TESSERA_FONT_MONO);

extern "C" {
extern const unsigned char tessera_font_regular[], tessera_font_regular_end[];
extern const unsigned char tessera_font_semibold[], tessera_font_semibold_end[];
extern const unsigned char tessera_font_mono[], tessera_font_mono_end[];
}

namespace tessera::inspector {

std::span<const unsigned char> inter_regular() {
  return {tessera_font_regular, tessera_font_regular_end};
}

std::span<const unsigned char> inter_semibold() {
  return {tessera_font_semibold, tessera_font_semibold_end};
}

std::span<const unsigned char> jetbrains_mono() {
  return {tessera_font_mono, tessera_font_mono_end};
}

}  // namespace tessera::inspector
