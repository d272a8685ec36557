// SPDX-License-Identifier: Apache-2.0
// Writes protocol buffers (protobuf.dev/programming-guides/encoding): tags, varints and lengths.
//
//   ProtoMessage event;
//   event.number(9, 1);                // an enumerator, an integer
//   packet.message(11, event);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::exchange {

class ProtoMessage {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {
    tag(field, 1);
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }
  void text(std::uint32_t field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_.append(value);
  }
  void message(std::uint32_t field, const ProtoMessage& value) { text(field, value.bytes_); }

  const std::string& bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void tag(std::uint32_t field, std::uint32_t kind) { varint(std::uint64_t{field} << 3 | kind); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>((value & 0x7F) | 0x80);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

}  // namespace tessera::exchange
