// SPDX-License-Identifier: Apache-2.0
#include "storage/encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace tessera::storage {
namespace {

enum Form : std::uint8_t {
  form_varints,
  form_constant,
  form_packed,
  form_sparse,
  form_periodic,
  form_offset
};
constexpr std::size_t varint_size_max = 10;
constexpr std::size_t block_size = 128;

std::uint8_t* put_varint(std::uint64_t value, std::uint8_t* out) {
  while (value >= 0x80) {
    *out++ = static_cast<std::uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<std::uint8_t>(value);
  return out;
}

constexpr std::size_t varint_size(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

/// Bytes of `count` numbers of so many bits.
constexpr std::size_t packed_size(std::size_t count, std::size_t width) {
  return (count * width + 7) / 8;
}

std::size_t width_of(std::span<const std::int64_t> block) {
  std::uint64_t all = 0;
  for (const std::int64_t value : block) all |= zigzag(value);
  return static_cast<std::size_t>(std::bit_width(all));
}

template <class F>
void for_each_block(std::size_t size, F use) {
  for (std::size_t at = 0; at < size; at += block_size) use(at, std::min(block_size, size - at));
}

/// How far numbers lie apart, and the least of them.
struct Extent {
  std::int64_t least = 0;
  std::size_t width = 0;  // bits of the differences to it
};

Extent extent_of(std::span<const std::int64_t> block) {
  const auto [least, most] = std::minmax_element(block.begin(), block.end());
  const std::int64_t range = wrapping_difference(*most, *least);
  return {*least, static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(range)))};
}

/// What each form takes without its first byte.
struct FormSizes {
  std::size_t varints = 0, packed = 0, sparse = 0, offset = 0;
};

FormSizes sizes_of(std::span<const std::int64_t> column) {
  FormSizes sizes;
  std::size_t zeros = 0, others = 0;
  for (const std::int64_t value : column) {
    const std::size_t size = varint_size(zigzag(value));
    sizes.varints += size;
    if (value == 0) {
      ++zeros;
      continue;
    }
    sizes.sparse += size + varint_size(zigzag(static_cast<std::int64_t>(zeros)));
    zeros = 0;
    ++others;
  }
  sizes.sparse += varint_size(zigzag(static_cast<std::int64_t>(others)));
  for_each_block(column.size(), [&](std::size_t at, std::size_t n) {
    sizes.packed += 1 + packed_size(n, width_of(column.subspan(at, n)));
    const Extent extent = extent_of(column.subspan(at, n));
    sizes.offset += 1 + varint_size(zigzag(extent.least)) + packed_size(n, extent.width);
  });
  return sizes;
}

/// `number_of`(value) of each, in so many bits.
template <class F>
std::uint8_t* put_bits(std::span<const std::int64_t> block, std::size_t width, F number_of,
                       std::uint8_t* out) {
  std::uint64_t held = 0;
  std::size_t bits = 0;
  const auto put = [&](std::size_t bytes) {
    for (; bytes > 0; --bytes, held >>= 8) *out++ = static_cast<std::uint8_t>(held);
  };
  for (const std::int64_t value : block) {
    const std::uint64_t number = number_of(value);
    held |= number << bits;
    bits += width;
    if (bits < 64) continue;
    put(8);
    bits -= 64;
    held = bits == 0 ? 0 : number >> (width - bits);
  }
  put((bits + 7) / 8);
  return out;
}

std::uint8_t* put_packed(std::span<const std::int64_t> block, std::uint8_t* out) {
  const std::size_t width = width_of(block);
  *out++ = static_cast<std::uint8_t>(width);
  return put_bits(block, width, zigzag, out);
}

std::uint8_t* put_offset(std::span<const std::int64_t> block, std::uint8_t* out) {
  const Extent extent = extent_of(block);
  out = put_varint(zigzag(extent.least), out);
  *out++ = static_cast<std::uint8_t>(extent.width);
  const auto above = [&](std::int64_t value) {
    return static_cast<std::uint64_t>(wrapping_difference(value, extent.least));
  };
  return put_bits(block, extent.width, above, out);
}

std::uint8_t* put_sparse(std::span<const std::int64_t> column, std::uint8_t* out) {
  const auto zero_count = std::count(column.begin(), column.end(), 0);
  out = put_varint(zigzag(std::ssize(column) - zero_count), out);
  std::int64_t zeros = 0;
  for (const std::int64_t value : column) {
    if (value == 0) {
      ++zeros;
      continue;
    }
    out = put_varint(zigzag(std::exchange(zeros, 0)), out);
    out = put_varint(zigzag(value), out);
  }
  return out;
}

/// The shortest of the forms that stand alone.
struct Choice {
  Form form = form_varints;
  std::size_t size = 0;  // in bytes, without the first one
  std::size_t room = 0;  // that is needed to write it
};

Choice choose(std::span<const std::int64_t> column, bool may_be_short) {
  const auto differs = [&](std::int64_t value) { return value != column.front(); };
  if (may_be_short && std::none_of(column.begin(), column.end(), differs)) {
    return {form_constant, varint_size(zigzag(column.front())), varint_size_max};
  }
  const FormSizes sizes = sizes_of(column);
  const std::size_t room = std::max(sizes.varints, sizes.packed) + 16 + sizeof(std::uint64_t);
  Choice best{form_varints, sizes.varints, room};
  if (!may_be_short && sizes.packed < column.size()) return best;
  if (sizes.packed < best.size) best = {form_packed, sizes.packed, room};
  if (may_be_short && sizes.sparse < best.size) {
    best = {form_sparse, sizes.sparse, std::max(room, sizes.sparse + 16)};
  }
  if (may_be_short && sizes.offset < best.size) {
    best = {form_offset, sizes.offset, std::max(room, sizes.offset + 16)};
  }
  return best;
}

void put(std::span<const std::int64_t> column, const Choice& choice,
         std::vector<std::uint8_t>& bytes) {
  const std::size_t start = bytes.size();
  bytes.resize(start + 1 + choice.room);
  std::uint8_t* out = bytes.data() + start;
  *out++ = choice.form;
  switch (choice.form) {
    case form_constant: out = put_varint(zigzag(column.front()), out); break;
    case form_sparse: out = put_sparse(column, out); break;
    case form_packed:
      for_each_block(column.size(), [&](std::size_t at, std::size_t n) {
        out = put_packed(column.subspan(at, n), out);
      });
      break;
    case form_offset:
      for_each_block(column.size(), [&](std::size_t at, std::size_t n) {
        out = put_offset(column.subspan(at, n), out);
      });
      break;
    default:
      for (const std::int64_t value : column) out = put_varint(zigzag(value), out);
  }
  bytes.resize(static_cast<std::size_t>(out - bytes.data()));
}

/// How far before `at` the numbers from there on are found again; 0: nowhere.
std::size_t distance_of(std::span<const std::int64_t> column, std::size_t at, std::size_t probe) {
  const auto wanted = column.subspan(at, probe);
  const auto differs = [&](std::int64_t value) { return value != wanted.front(); };
  if (std::none_of(wanted.begin(), wanted.end(), differs)) return 0;
  for (std::size_t p = 2; p <= at; ++p) {
    if (column[at - p] != wanted.front()) continue;
    if (std::equal(wanted.begin(), wanted.end(),
                   column.begin() + static_cast<std::ptrdiff_t>(at - p))) {
      return p;
    }
  }
  return 0;
}

/// The distance in which most numbers are found again; 0: there is none.
std::size_t period_of(std::span<const std::int64_t> column) {
  constexpr std::size_t probe = 16, probes = 8, candidates_max = 3;
  if (column.size() < 4 * probe) return 0;
  std::array<std::size_t, candidates_max> candidates{};
  std::size_t found = 0, best = 0, best_equal = column.size() / 4;
  for (std::size_t k = probes; k > 0 && found < candidates_max; --k) {
    const std::size_t at = (column.size() - probe) * k / probes;
    const std::size_t p = distance_of(column, at, probe);
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(found);
    if (p == 0 || std::find(candidates.begin(), end, p) != end) continue;
    candidates[found++] = p;
    std::size_t equal = 0;
    for (std::size_t i = p; i < column.size(); ++i) equal += column[i] == column[i - p] ? 1 : 0;
    if (equal > best_equal) best = p, best_equal = equal;
  }
  return best;
}

}  // namespace

void append_column(std::span<const std::int64_t> column, std::vector<std::uint8_t>& bytes,
                   bool may_be_short) {
  const Choice choice = choose(column, may_be_short);
  // Nothing is gained where next to nothing is left.
  const std::size_t period =
      may_be_short && choice.size > 16 + column.size() / 64 ? period_of(column) : 0;
  if (period == 0) return put(column, choice, bytes);
  std::vector<std::int64_t> rest(column.begin(), column.end());
  for (std::size_t i = rest.size() - 1; i >= period; --i) {
    rest[i] = wrapping_difference(rest[i], rest[i - period]);
  }
  const std::uint64_t distance = zigzag(static_cast<std::int64_t>(period));
  const Choice of_rest = choose(rest, true);
  if (1 + varint_size(distance) + of_rest.size >= choice.size) return put(column, choice, bytes);
  bytes.push_back(form_periodic);
  bytes.resize(bytes.size() + varint_size(distance));
  put_varint(distance, bytes.data() + bytes.size() - varint_size(distance));
  put(rest, of_rest, bytes);
}

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
  if (rest_.empty() || rest_.front() > 64) return false;
  const std::size_t width = rest_.front();
  rest_ = rest_.subspan(1);
  const std::size_t size = packed_size(block.size(), width);
  if (rest_.size() < size) return false;
  // Numbers are taken from 16 bytes at a time, so there are some behind the last.
  std::array<std::uint8_t, packed_size(block_size, 64) + 16> bytes{};
  std::copy_n(rest_.begin(), size, bytes.begin());
  rest_ = rest_.subspan(size);
  const std::uint64_t mask = width == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << width) - 1;
  const auto word = [&](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{bytes[at + i]} << (8 * i);
    return value;
  };
  for (std::size_t i = 0; i < block.size(); ++i) {
    const std::size_t bit = i * width, shift = bit % 8;
    std::uint64_t value = word(bit / 8) >> shift;
    if (shift + width > 64) value |= word(bit / 8 + 8) << (64 - shift);
    block[i] = static_cast<std::int64_t>(value & mask);
  }
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
    case form_varints:
      return std::all_of(column.begin(), column.end(),
                         [this](std::int64_t& value) { return read_varint(value); });
    case form_packed:
    case form_offset: {
      bool whole = true;
      for_each_block(column.size(), [&](std::size_t at, std::size_t n) {
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
