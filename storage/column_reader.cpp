// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "storage/column_form.h"
#include "storage/column_kernels.h"
#include "storage/encoding.h"

namespace tessera::storage {
namespace {

constexpr std::size_t varint_size_max = 10;

/// The number whose groups of 7 bits are in the bytes of `word`, the lowest first.
constexpr std::uint64_t joined_groups(std::uint64_t word) {
  word &= 0x7F7F7F7F7F7F7F7F;
  word = (word & 0x007F007F007F007F) | (word & 0x7F007F007F007F00) >> 1;
  word = (word & 0x00003FFF00003FFF) | (word & 0x3FFF00003FFF0000) >> 2;
  return (word & 0x000000000FFFFFFF) | (word & 0x0FFFFFFF00000000) >> 4;
}

template <class F>
void for_each_part(std::size_t size, F use) {
  for (std::size_t at = 0; at < size; at += block_size) use(at, std::min(block_size, size - at));
}

}  // namespace

bool ColumnReader::read_varint(std::int64_t& value) {
  if (!rest_.empty() && rest_.front() < 0x80) {
    value = unzigzag(rest_.front());
    rest_ = rest_.subspan(1);
    return true;
  }
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

// Up to eight bytes at once: a loop over them would guess how many there are, and guess wrong.
bool ColumnReader::read_varints(std::span<std::int64_t> column) {
  constexpr bool at_once = std::endian::native == std::endian::little;
  for (std::size_t done = 0; done < column.size(); ++done) {
    const std::uint8_t* at = rest_.data();
    const std::uint8_t* const end = at + rest_.size();
    for (; at_once && done < column.size() && end - at >= 8; ++done) {
      std::uint64_t word = *at;
      if (word < 0x80) {
        column[done] = unzigzag(word);
        ++at;
        continue;
      }
      std::memcpy(&word, at, sizeof(word));
      const int last = std::countr_zero(~word & 0x8080808080808080) / 8;  // 8: there are more
      if (last == 8 || at[last] == 0) break;
      column[done] = unzigzag(joined_groups(word & ~std::uint64_t{0} >> (56 - 8 * last)));
      at += last + 1;
    }
    rest_ = rest_.last(static_cast<std::size_t>(end - at));
    // Those at the end, and long or wrong ones.
    if (done < column.size() && !read_varint(column[done])) return false;
  }
  return true;
}

bool ColumnReader::read_offset(std::span<std::int64_t> block) {
  std::int64_t least = 0;
  if (!read_varint(least) || !read_bits(block)) return false;
  for (std::int64_t& value : block) value = wrapping_sum(value, least);
  return true;
}

bool ColumnReader::read_packed(std::span<std::int64_t> block) {
  if (!read_bits(block)) return false;
  for (std::int64_t& value : block) value = unzigzag(static_cast<std::uint64_t>(value));
  return true;
}

bool ColumnReader::read_bits(std::span<std::int64_t> block) {
  constexpr std::size_t behind = 16;  // bytes that are looked at behind the last number
  if (rest_.empty() || rest_.front() > 64) return false;
  const std::size_t width = rest_.front();
  rest_ = rest_.subspan(1);
  const std::size_t size = packed_size(block.size(), width);
  if (rest_.size() < size) return false;
  if (rest_.size() >= size + behind) {
    take_bits(rest_.data(), width, block);
  } else {
    std::array<std::uint8_t, packed_size(block_size, 64) + behind> bytes{};
    std::copy_n(rest_.begin(), size, bytes.begin());
    take_bits(bytes.data(), width, block);
  }
  rest_ = rest_.subspan(size);
  return true;
}

bool ColumnReader::read_sparse(std::span<std::int64_t> column) {
  std::int64_t others = 0;
  if (!read_varint(others) || others < 0) return false;
  std::fill(column.begin(), column.end(), 0);
  for (; others > 0; --others) {
    std::int64_t zeros = 0;
    if (!read_varint(zeros) || zeros < 0 || zeros >= std::ssize(column)) return false;
    column = column.subspan(static_cast<std::size_t>(zeros));
    if (!read_varint(column.front())) return false;
    column = column.subspan(1);
  }
  return true;
}

bool ColumnReader::read(std::span<std::int64_t> column) {
  if (rest_.empty()) return false;
  const std::uint8_t form = rest_.front();
  rest_ = rest_.subspan(1);
  if (form != form_periodic) return read_form(form, column);
  std::int64_t distance = 0;
  if (!read_varint(distance) || distance < 1 || distance >= std::ssize(column)) return false;
  if (rest_.empty()) return false;
  const std::uint8_t of_rest = rest_.front();
  rest_ = rest_.subspan(1);
  if (!read_form(of_rest, column)) return false;
  const auto period = static_cast<std::size_t>(distance);
  for (std::size_t i = period; i < column.size(); ++i) {
    column[i] = wrapping_sum(column[i], column[i - period]);
  }
  return true;
}

bool ColumnReader::read_form(std::uint8_t form, std::span<std::int64_t> column) {
  switch (form) {
    case form_constant: {
      std::int64_t value = 0;
      if (!read_varint(value)) return false;
      std::fill(column.begin(), column.end(), value);
      return true;
    }
    case form_varints: return read_varints(column);
    case form_packed:
    case form_offset: {
      bool whole = true;
      for_each_part(column.size(), [&](std::size_t at, std::size_t n) {
        const auto block = column.subspan(at, n);
        whole = whole && (form == form_packed ? read_packed(block) : read_offset(block));
      });
      return whole;
    }
    case form_sparse: return read_sparse(column);
    default: return false;
  }
}

}  // namespace tessera::storage
