// SPDX-License-Identifier: Apache-2.0
#include "training/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "training/tokenizer/unicode_text.h"

namespace tessera::tokens {
namespace {

constexpr std::uint32_t beyond = 256;

std::array<std::uint32_t, 256> make_alphabet() {
  std::array<std::uint32_t, 256> out{};
  std::uint32_t next = beyond;
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const bool visible = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    out[byte] = visible ? byte : next++;
  }
  return out;
}

const std::array<std::uint32_t, 256>& alphabet() {
  static const auto all = make_alphabet();
  return all;
}

}  // namespace

std::string to_byte_alphabet(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append(alphabet()[static_cast<std::uint8_t>(byte)], out);
  return out;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  static const auto bytes = [] {
    std::array<int, 512> out{};
    out.fill(-1);
    for (std::size_t byte = 0; byte < 256; ++byte) out[alphabet()[byte]] = static_cast<int>(byte);
    return out;
  }();
  std::string out;
  for (const std::uint32_t c : characters_of(text)) {
    if (c >= bytes.size() || bytes[c] < 0) return {};
    out += static_cast<char>(bytes[c]);
  }
  return out;
}

}  // namespace tessera::tokens
