// SPDX-License-Identifier: Apache-2.0
#include "exchange/parse/protobuf.h"

#include <bit>

namespace tessera::exchange {
namespace {

bool take_fixed(std::string_view& bytes, std::size_t size, std::uint64_t& value) {
  if (bytes.size() < size) return false;
  value = 0;
  for (std::size_t i = size; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[i - 1]);
  }
  bytes.remove_prefix(size);
  return true;
}

}  // namespace

bool take_varint(std::string_view& bytes, std::uint64_t& value) {
  constexpr std::size_t longest = 10;
  value = 0;
  for (std::size_t i = 0; i < bytes.size() && i < longest; ++i) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      bytes.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

bool ProtoFields::fail() {
  broken_ = true;
  return false;
}

bool ProtoFields::next() {
  if (rest_.empty() || broken_) return false;
  std::uint64_t tag = 0;
  if (!take_varint(rest_, tag) || tag >> 3 == 0 || tag >> 32 != 0) return fail();
  number_ = static_cast<std::uint32_t>(tag >> 3);
  type_ = static_cast<std::uint32_t>(tag & 7);
  integer_ = 0;
  bytes_ = {};
  switch (type_) {
    case 0: return take_varint(rest_, integer_) || fail();
    case 1: return take_fixed(rest_, 8, integer_) || fail();
    case 5: return take_fixed(rest_, 4, integer_) || fail();
    case 2: {
      std::uint64_t size = 0;
      if (!take_varint(rest_, size) || size > rest_.size()) return fail();
      bytes_ = rest_.substr(0, size);
      rest_.remove_prefix(size);
      return true;
    }
    default: return fail();  // groups, which proto3 has not
  }
}

double ProtoFields::real() const {
  if (type_ == 1) return std::bit_cast<double>(integer_);
  if (type_ == 5) return std::bit_cast<float>(static_cast<std::uint32_t>(integer_));
  return static_cast<double>(integer_);
}

}  // namespace tessera::exchange
