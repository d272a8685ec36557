// SPDX-License-Identifier: Apache-2.0
#include "storage/encoding.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "storage/column_form.h"
#include "storage/column_kernels.h"
#include "tessera/assert.h"

namespace tessera::storage {
namespace {

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

std::size_t width_of(const BlockFacts& block) {
  return static_cast<std::size_t>(std::bit_width(block.all));
}

/// How far the numbers lie apart.
std::size_t width_above(const BlockFacts& block) {
  const std::int64_t range = wrapping_difference(block.most, block.least);
  return static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(range)));
}

/// Calls use(numbers, facts) for each block.
template <class F>
void for_each_block(std::span<const std::int64_t> column, F use) {
  std::array<BlockFacts, 64> facts;
  constexpr std::size_t most = facts.size() * block_size;
  for (; !column.empty(); column = column.subspan(std::min(most, column.size()))) {
    const auto part = column.first(std::min(most, column.size()));
    find_facts(part, facts.data());
    for (std::size_t at = 0; at < part.size(); at += block_size) {
      use(part.subspan(at, std::min(block_size, part.size() - at)), facts[at / block_size]);
    }
  }
}

/// What forms take without their first byte.
struct FormSizes {
  std::size_t packed = 0, offset = 0;
  std::size_t others = 0;  // numbers that are not 0
  bool constant = true;
};

FormSizes sizes_of(std::span<const std::int64_t> column) {
  FormSizes sizes;
  for_each_block(column, [&](std::span<const std::int64_t> block, const BlockFacts& facts) {
    sizes.packed += 1 + packed_size(block.size(), width_of(facts));
    sizes.offset +=
        1 + varint_size(zigzag(facts.least)) + packed_size(block.size(), width_above(facts));
    sizes.others += static_cast<std::size_t>(facts.others);
    sizes.constant &= facts.least == column.front() && facts.most == column.front();
  });
  return sizes;
}

std::size_t size_of_varints(std::span<const std::int64_t> column) {
  std::size_t size = 0;
  for_each_block(column, [&](std::span<const std::int64_t> block, const BlockFacts& facts) {
    size += varints_size(block, facts.all);
  });
  return size;
}

std::size_t size_of_sparse(std::span<const std::int64_t> column, std::size_t others) {
  std::size_t size = varint_size(zigzag(static_cast<std::int64_t>(others)));
  std::int64_t zeros = 0;
  for (const std::int64_t value : column) {
    if (value == 0) {
      ++zeros;
      continue;
    }
    size += varint_size(zigzag(value)) + varint_size(zigzag(std::exchange(zeros, 0)));
  }
  return size;
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
};

Choice choose(std::span<const std::int64_t> column, bool may_be_short) {
  const FormSizes sizes = sizes_of(column);
  if (may_be_short && sizes.constant) return {form_constant, varint_size(zigzag(column.front()))};
  const bool short_packed = sizes.packed < column.size();  // and varints take a byte at least
  if (!may_be_short && short_packed) return {form_varints, size_of_varints(column)};
  Choice best{form_packed, sizes.packed};
  if (!short_packed) {
    const std::size_t varints = size_of_varints(column);
    if (varints <= best.size) best = {form_varints, varints};
  }
  if (!may_be_short) return best;
  if (2 * sizes.others < best.size) {
    const std::size_t sparse = size_of_sparse(column, sizes.others);
    if (sparse < best.size) best = {form_sparse, sparse};
  }
  if (sizes.offset < best.size) best = {form_offset, sizes.offset};
  return best;
}

void put(std::span<const std::int64_t> column, const Choice& choice,
         std::vector<std::uint8_t>& bytes) {
  constexpr std::size_t spare = 16;  // that packing may write behind the end
  const std::size_t start = bytes.size();
  bytes.resize(start + 1 + choice.size + spare);
  std::uint8_t* out = bytes.data() + start;
  *out++ = choice.form;
  switch (choice.form) {
    case form_constant: out = put_varint(zigzag(column.front()), out); break;
    case form_sparse: out = put_sparse(column, out); break;
    case form_packed:
      for_each_block(column, [&](std::span<const std::int64_t> block, const BlockFacts& facts) {
        *out++ = static_cast<std::uint8_t>(width_of(facts));
        out = put_zigzag(block, width_of(facts), out);
      });
      break;
    case form_offset:
      for_each_block(column, [&](std::span<const std::int64_t> block, const BlockFacts& facts) {
        out = put_varint(zigzag(facts.least), out);
        *out++ = static_cast<std::uint8_t>(width_above(facts));
        out = put_above(block, facts.least, width_above(facts), out);
      });
      break;
    default:
      for (const std::int64_t value : column) out = put_varint(zigzag(value), out);
  }
  const auto end = static_cast<std::size_t>(out - bytes.data());
  TESSERA_ASSERT(end == start + 1 + choice.size, "a form takes the bytes that were counted for it");
  bytes.resize(end);
}

constexpr std::size_t probe_size = 16;

/// How far before `at` the numbers from there on are found again, 2 at least; 0: nowhere.
std::size_t distance_of(std::span<const std::int64_t> column, std::size_t at) {
  const auto wanted = column.subspan(at, probe_size);
  // What is far from 0 is rarest.
  const auto rarest =
      std::max_element(wanted.begin(), wanted.end(),
                       [](std::int64_t a, std::int64_t b) { return zigzag(a) < zigzag(b); });
  const auto differs = [&](std::int64_t value) { return value != *rarest; };
  if (std::none_of(wanted.begin(), wanted.end(), differs)) return 0;
  const auto place = static_cast<std::size_t>(rarest - wanted.begin());
  auto before = column.subspan(place, at < 2 ? 0 : at - 1);  // `rarest` where it may be found
  while (!before.empty()) {
    const std::size_t found = find_last(before, *rarest);
    if (found == before.size()) return 0;
    if (std::equal(wanted.begin(), wanted.end(),
                   column.begin() + static_cast<std::ptrdiff_t>(found))) {
      return at - found;
    }
    before = before.first(found);
  }
  return 0;
}

/// The distance in which most numbers are found again; 0: there is none.
std::size_t period_of(std::span<const std::int64_t> column) {
  constexpr std::size_t probes = 8, candidates_max = 3;
  if (column.size() < 4 * probe_size) return 0;
  std::array<std::size_t, candidates_max> candidates{};
  std::size_t found = 0, best = 0, best_equal = column.size() / 4;
  for (std::size_t k = probes; k > 0 && found < candidates_max; --k) {
    const std::size_t at = (column.size() - probe_size) * k / probes;
    const std::size_t p = distance_of(column, at);
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(found);
    if (p == 0 || std::find(candidates.begin(), end, p) != end) continue;
    candidates[found++] = p;
    const std::size_t equal = count_repeated(column, p);
    if (equal > best_equal) best = p, best_equal = equal;
  }
  return best;
}

/// How a column is written.
struct Spelling {
  Choice choice;                   // of the column, or of what is left of it
  std::size_t period = 0;          // 0: it does not repeat itself
  std::vector<std::int64_t> rest;  // what numbers differ by from those a period before

  std::size_t size() const {
    const std::size_t distance = varint_size(zigzag(static_cast<std::int64_t>(period)));
    return 1 + choice.size + (period == 0 ? 0 : 1 + distance);
  }
};

Spelling spell(std::span<const std::int64_t> column, bool may_be_short) {
  Spelling plain{.choice = choose(column, may_be_short), .rest = {}};
  // Nothing is gained where next to nothing is left.
  if (!may_be_short || plain.choice.size <= 16 + column.size() / 64) return plain;
  Spelling repeated{.choice = {}, .period = period_of(column), .rest = {}};
  if (repeated.period == 0) return plain;
  repeated.rest.assign(column.begin(), column.end());
  for (std::size_t i = column.size() - 1; i >= repeated.period; --i) {
    repeated.rest[i] = wrapping_difference(column[i], column[i - repeated.period]);
  }
  repeated.choice = choose(repeated.rest, true);
  return repeated.size() < plain.size() ? repeated : plain;
}

void put(std::span<const std::int64_t> column, const Spelling& spelling,
         std::vector<std::uint8_t>& bytes) {
  if (spelling.period == 0) return put(column, spelling.choice, bytes);
  const std::uint64_t distance = zigzag(static_cast<std::int64_t>(spelling.period));
  bytes.push_back(form_periodic);
  bytes.resize(bytes.size() + varint_size(distance));
  put_varint(distance, bytes.data() + bytes.size() - varint_size(distance));
  put(spelling.rest, spelling.choice, bytes);
}

}  // namespace

void append_column(std::span<const std::int64_t> column, std::vector<std::uint8_t>& bytes,
                   bool may_be_short) {
  TESSERA_ASSERT(!column.empty(), "a column has a number");
  put(column, spell(column, may_be_short), bytes);
}

bool append_shorter(std::span<const std::int64_t> a, std::span<const std::int64_t> b,
                    std::vector<std::uint8_t>& bytes) {
  TESSERA_ASSERT(!a.empty() && a.size() == b.size(), "one column, written in two ways");
  const Spelling first = spell(a, true), second = spell(b, true);
  const bool shorter = second.size() < first.size();
  shorter ? put(b, second, bytes) : put(a, first, bytes);
  return shorter;
}

}  // namespace tessera::storage
