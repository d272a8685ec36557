// SPDX-License-Identifier: Apache-2.0
// Protobuf messages where they lie in memory, field by field, without their schema's code.
// The wire format: https://protobuf.dev/programming-guides/encoding/
//
//   for (ProtoFields fields(message); fields.next();) {
//     if (fields.number() == 1) id = fields.integer();
//     if (fields.number() == 2) name = fields.bytes();
//   }
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera::exchange {

/// A varint at the begin of `bytes`, which it is taken from; false: there is none.
bool take_varint(std::string_view& bytes, std::uint64_t& value);

class ProtoFields {
 public:
  explicit ProtoFields(std::string_view message) : rest_(message) {}

  /// The next field; false: the end, or no field (`broken`).
  bool next();
  bool broken() const { return broken_; }

  std::uint32_t number() const { return number_; }
  /// Of a varint or of a fixed field; 0 for others.
  std::uint64_t integer() const { return integer_; }
  std::int64_t signed_integer() const { return static_cast<std::int64_t>(integer_); }
  /// Of a fixed field of 8 or 4 bytes.
  double real() const;
  /// Of a text, of bytes, of a message within this one, or of packed numbers.
  std::string_view bytes() const { return bytes_; }
  bool has_bytes() const { return type_ == 2; }

 private:
  bool fail();

  std::string_view rest_, bytes_;
  std::uint64_t integer_ = 0;
  std::uint32_t number_ = 0, type_ = 0;
  bool broken_ = false;
};

}  // namespace tessera::exchange
