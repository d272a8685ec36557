// SPDX-License-Identifier: Apache-2.0
#include "storage/step_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "storage/encoding.h"
#include "storage/record_sql.h"
#include "tessera/assert.h"

namespace tessera::storage {
namespace {

constexpr std::size_t step_columns = 9;
using StepColumns = std::array<std::vector<std::int64_t>, step_columns>;

// In the other columns each rank has a byte at least, so that a small file cannot claim to have
// the steps of very many.
constexpr std::array<bool, step_columns> may_be_short = {false, false, false, true, false,
                                                         false, false, true,  true};

/// What each column is of rank `i`, before differences are taken.
std::array<std::int64_t, step_columns> unpredicted(const RankStepBatch& s, std::size_t i) {
  const std::int64_t duration = wrapping_difference(s.end[i], s.begin[i]);
  const std::int64_t rest = wrapping_difference(duration, s.compute[i]);
  return {s.begin[i],
          duration,
          s.compute[i],
          s.communication[i],
          wrapping_difference(rest, s.exposed[i]),
          wrapping_difference(rest, s.blocking[i]),
          s.wait[i],
          s.peak_allocated[i].value,
          s.peak_reserved[i].value};
}

/// The numbers of one column as those of ranks: each is what differs from the rank before.
void integrate_steps(std::span<std::int64_t> column) {
  for (std::size_t i = 1; i < column.size(); ++i) {
    column[i] = wrapping_sum(column[i - 1], column[i]);
  }
}

/// What was predicted is put back where the rest of it was read to: entries from `first` on.
void add_predicted(std::size_t first, RankSteps& s) {
  for (std::size_t i = first; i < s.begin.size(); ++i) {
    const std::int64_t duration = s.end[i];
    const std::int64_t rest = wrapping_difference(duration, s.compute[i]);
    s.end[i] = wrapping_sum(s.begin[i], duration);
    s.exposed[i] = wrapping_difference(rest, s.exposed[i]);
    s.blocking[i] = wrapping_difference(rest, s.blocking[i]);
  }
}

}  // namespace

void encode_steps(const RankStepBatch& steps, ChunkHeader& header,
                  std::vector<std::uint8_t>& data) {
  const auto first = static_cast<std::size_t>(header.rank);
  const auto n = static_cast<std::size_t>(header.count);
  TESSERA_ASSERT(
      header.rank >= 0 && n >= 1 && n <= chunk_count_max && first + n <= steps.begin.size(),
      "the step has these ranks");
  header.t0 = *std::min_element(&steps.begin[first], &steps.begin[first] + n);
  header.t1 = *std::max_element(&steps.end[first], &steps.end[first] + n);
  StepColumns differences;
  for (auto& column : differences) column.resize(n - 1);
  auto last = unpredicted(steps, first);
  data.clear();
  append_column(last, data);
  for (std::size_t i = 1; i < n; ++i) {
    const auto now = unpredicted(steps, first + i);
    for (std::size_t c = 0; c < step_columns; ++c) {
      differences[c][i - 1] = wrapping_difference(now[c], last[c]);
    }
    last = now;
  }
  if (n == 1) return;
  for (std::size_t c = 0; c < step_columns; ++c)
    append_column(differences[c], data, may_be_short[c]);
}

Status decode_steps(const ChunkHeader& header, std::span<const std::uint8_t> data,
                    RankSteps& steps) {
  const auto damaged = [&](std::string_view what) {
    return Status(Code::corrupt, fmt::format("{} is damaged: {}.", header.describe(), what));
  };
  if (header.count < 1 || header.count > static_cast<std::int64_t>(chunk_count_max)) {
    return damaged(fmt::format("it claims {} ranks", header.count));
  }
  const auto n = static_cast<std::size_t>(header.count);
  std::array<std::int64_t, step_columns> first{};
  ColumnReader reader(data);
  if (!reader.read(first)) return damaged("its data ends early");
  const std::size_t old = steps.begin.size();
  for_each_step_column<RankSteps, RankSteps>(
      [&](auto column, auto) { (steps.*column).resize(old + n); });
  std::size_t next = 0;
  const auto read = [&](std::span<std::int64_t> to) {
    to.front() = first[next++];
    const bool whole = n == 1 || reader.read(to.subspan(1));
    integrate_steps(to);
    return whole;
  };
  for (auto* times : {&steps.begin, &steps.end, &steps.compute, &steps.communication,
                      &steps.exposed, &steps.blocking, &steps.wait}) {
    if (!read(std::span(*times).subspan(old))) return damaged("its data ends early");
  }
  std::vector<std::int64_t> bytes(n);
  for (auto* peaks : {&steps.peak_allocated, &steps.peak_reserved}) {
    if (!read(bytes)) return damaged("its data ends early");
    std::transform(bytes.begin(), bytes.end(), peaks->begin() + static_cast<std::ptrdiff_t>(old),
                   [](std::int64_t value) { return Bytes{value}; });
  }
  if (!reader.at_end()) return damaged("its data is too long");
  add_predicted(old, steps);
  return {};
}

}  // namespace tessera::storage
