// SPDX-License-Identifier: Apache-2.0
// Writes protocol buffers (protobuf.dev/programming-guides/encoding): tags, varints and lengths.
//
//   ProtoMessage event;
//   event.number(9, 1);                // an enumerator, an integer
//   packet.message(11, event);
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

template <class Word>
void append_little_endian(Word word, std::string& bytes) {
  for (std::size_t i = 0; i < sizeof(word); ++i) bytes += static_cast<char>(word >> (8 * i) & 0xFF);
}

class ProtoMessage {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    tag(field, 0);
    varint(value);
  }
  void fixed(std::uint32_t field, std::uint64_t value) {
    tag(field, 1);
    append_little_endian(value, bytes_);
  }
  void number64(std::uint32_t field, double value) {
    fixed(field, std::bit_cast<std::uint64_t>(value));
  }
  void number32(std::uint32_t field, float value) {
    tag(field, 5);
    append_little_endian(std::bit_cast<std::uint32_t>(value), bytes_);
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

}  // namespace tessera
