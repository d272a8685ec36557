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
void integrate_steps(std::vector<std::int64_t>& column) {
  for (std::size_t i = 1; i < column.size(); ++i) {
    column[i] = wrapping_sum(column[i - 1], column[i]);
  }
}

void append_ranks(const StepColumns& columns, RankSteps& s) {
  const std::size_t n = columns[0].size(), old = s.begin.size();
  for_each_step_column<RankSteps, RankSteps>(
      [&](auto column, auto) { (s.*column).resize(old + n); });
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t to = old + i;
    const std::int64_t duration = columns[1][i];
    const std::int64_t rest = wrapping_difference(duration, columns[2][i]);
    s.begin[to] = columns[0][i];
    s.end[to] = wrapping_sum(columns[0][i], duration);
    s.compute[to] = columns[2][i];
    s.communication[to] = columns[3][i];
    s.exposed[to] = wrapping_difference(rest, columns[4][i]);
    s.blocking[to] = wrapping_difference(rest, columns[5][i]);
    s.wait[to] = columns[6][i];
    s.peak_allocated[to] = Bytes{columns[7][i]};
    s.peak_reserved[to] = Bytes{columns[8][i]};
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
  StepColumns columns;
  for (std::size_t c = 0; c < step_columns; ++c) {
    columns[c].resize(n);
    columns[c][0] = first[c];
    if (n > 1 && !reader.read(std::span(columns[c]).subspan(1))) {
      return damaged("its data ends early");
    }
    integrate_steps(columns[c]);
  }
  if (!reader.at_end()) return damaged("its data is too long");
  append_ranks(columns, steps);
  return {};
}

}  // namespace tessera::storage
