// SPDX-License-Identifier: Apache-2.0
#include "cli/printable.h"

#include <fmt/format.h>

#include <cstddef>

namespace tessera::cli {
namespace {

/// Bytes of the character that begins `text`; 0 if it is no UTF-8. Longer forms than needed and
/// surrogates print as nothing dangerous, so they pass.
std::size_t length_of_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (first < 0x20 || first == 0x7F) return true;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = length_of_character(text.substr(at));
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    if (length > 0 && !is_control(character)) {
      out += character;
    } else {
      for (const char c : character) {
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    at += character.size();
  }
  return out;
}

}  // namespace tessera::cli
