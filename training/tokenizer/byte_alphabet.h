// SPDX-License-Identifier: Apache-2.0
// Byte-level vocabularies write each byte as one visible character: printable ones of Latin-1 stand
// for themselves, the others follow from U+0100 on (GPT-2).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::tokens {

std::string to_byte_alphabet(std::string_view bytes);
/// Nothing, if a character is none of the alphabet.
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace tessera::tokens
