// SPDX-License-Identifier: Apache-2.0
#include "storage/encoding.h"

#include <algorithm>

namespace tessera::storage {
namespace {

constexpr std::uint8_t form_varints = 0;
constexpr std::uint8_t form_constant = 1;
constexpr std::size_t varint_size_max = 10;

std::uint8_t* put_varint(std::uint64_t value, std::uint8_t* out) {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

}  // namespace

void append_column(std::span<const std::int64_t> column, std::vector<std::uint8_t>& bytes,
                   bool may_repeat) {
  const auto differs = [&](std::int64_t value) { return value != column.front(); };
  const bool constant = may_repeat && std::none_of(column.begin(), column.end(), differs);
  if (constant) column = column.first(1);
  const std::size_t start = bytes.size();
  bytes.resize(start + 1 + column.size() * varint_size_max);
  std::uint8_t* out = bytes.data() + start;
  *out++ = constant ? form_constant : form_varints;
  for (const std::int64_t value : column) out = put_varint(zigzag(value), out);
  bytes.resize(static_cast<std::size_t>(out - bytes.data()));
}

bool ColumnReader::read_varint(std::int64_t& value) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < rest_.size() && i < varint_size_max; ++i) {
    const std::uint64_t group = rest_[i] & 0x7F;
    // The tenth byte has room for one bit; longer spellings of small numbers are not canonical.
    if ((i == 9 && group > 1) || (i > 0 && rest_[i] == 0)) return false;
    bits |= group << (7 * i);
    if (rest_[i] < 0x80) {
      rest_ = rest_.subspan(i + 1);
      value = unzigzag(bits);
      return true;
    }
  }
  return false;
}

bool ColumnReader::read(std::span<std::int64_t> column) {
  if (rest_.empty() || rest_.front() > form_constant) return false;
  const bool constant = rest_.front() == form_constant;
  rest_ = rest_.subspan(1);
  if (constant) {
    std::int64_t value = 0;
    if (!read_varint(value)) return false;
    std::fill(column.begin(), column.end(), value);
    return true;
  }
  for (std::int64_t& value : column) {
    if (!read_varint(value)) return false;
  }
  return true;
}

}  // namespace tessera::storage
