// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "storage/read_rows.h"
#include "storage/record_sql.h"
#include "storage/step_chunk.h"

namespace tessera::storage {
namespace {

constexpr std::int64_t step_size = 72;  // bytes in memory of a rank's step

/// Where the next rank's step belongs, as all have one in the order of steps and ranks.
class StepPlaces {
 public:
  /// Of the steps [from, to).
  StepPlaces(std::int32_t ranks, std::int32_t from, std::int32_t to)
      : ranks_(ranks), size_(std::int64_t{ranks} * to), at_(std::int64_t{ranks} * from) {}

  /// `count` ranks of `step` from `rank` come. Fails: corrupt.
  Status next(const char* table, std::int64_t step, std::int64_t rank, std::int64_t count) {
    const std::int64_t at = at_;
    const bool fits = count >= 1 && count <= ranks_ - at % ranks_ && at < size_;
    at_ += fits ? count : 0;
    if (fits && step == at / ranks_ && rank == at % ranks_) return {};
    return {Code::corrupt,
            fmt::format("The trace is damaged: {} has (step {}, rank {}) where ({}, {}) belongs.",
                        table, step, rank, at / ranks_, at % ranks_)};
  }
  Status end(const char* table) const {
    if (at_ == size_) return {};
    return {Code::corrupt,
            fmt::format("The trace is damaged: {} has {} ranks' steps instead of {}.", table, at_,
                        size_)};
  }

 private:
  const std::int64_t ranks_, size_;
  std::int64_t at_;
};

std::string where_of(std::int32_t from, std::int32_t to) {
  return fmt::format(" WHERE step >= {} AND step < {}", from, to);
}

/// As version 1 had them.
Status read_step_rows(const Database& database, const StepPlaces& from, const std::string& where,
                      RankSteps& steps) {
  const char* const table = List<RankStepRow>::table;
  StepPlaces places = from;
  const auto read = [&](const RankStepRow& row) -> Status {
    TESSERA_TRY(places.next(table, row.step, row.rank, 1));
    for_each_step_column<RankSteps, RankStepRow>(
        [&](auto to, auto of) { (steps.*to).push_back(row.*of); });
    return {};
  };
  const Status status = read_rows<RankStepRow>(database, read, where);
  return status.ok() ? places.end(table) : status;
}

Status read_step_chunks(const Database& database, const StepPlaces& from, const std::string& where,
                        RankSteps& steps) {
  const char* const table = List<RankStepChunkRow>::table;
  StepPlaces places = from;
  const auto read = [&](const RankStepChunkRow& row) -> Status {
    const ChunkHeader header{row.rank, steps_stream, row.step, row.count, row.t0, row.t1};
    if (chunk_checksum(header, row.data) != row.checksum) {
      return {Code::corrupt,
              fmt::format("{} is damaged: its checksum is wrong.", header.describe())};
    }
    TESSERA_TRY(places.next(table, row.step, row.rank, row.count));
    return decode_steps(header, row.data, steps);
  };
  const Status status = read_rows<RankStepChunkRow>(database, read, where);
  return status.ok() ? places.end(table) : status;
}

}  // namespace

RankStepBatch batch_of(const RankSteps& steps, std::int32_t step, std::size_t first) {
  RankStepBatch batch;
  batch.step = step;
  for_each_step_column<RankStepBatch, RankSteps>([&](auto to, auto from) {
    batch.*to = std::span(steps.*from).subspan(first, static_cast<std::size_t>(steps.ranks));
  });
  return batch;
}

Status check_step_density(const Database& database) {
  TESSERA_ASSIGN(const bool rows, database.has_table(List<RankStepRow>::table));
  return rows ? Status() : check_density(database, List<RankStepChunkRow>::table, step_size);
}

Result<RankSteps> read_rank_steps(const Database& database, std::int32_t ranks, std::int32_t from,
                                  std::int32_t to) {
  RankSteps result;
  result.step = from;
  result.ranks = ranks;
  result.steps = to - from;
  // What a damaged file claims to have is not reserved.
  constexpr std::int64_t reserved_most = 1 << 20;
  const std::int64_t count = std::min(std::int64_t{ranks} * (to - from), reserved_most);
  for_each_step_column<RankSteps, RankSteps>([&](auto column, auto) {
    (result.*column).reserve(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  });
  TESSERA_ASSIGN(const bool rows, database.has_table(List<RankStepRow>::table));
  const StepPlaces places(ranks, from, to);
  const std::string where = where_of(from, to);
  TESSERA_TRY(rows ? read_step_rows(database, places, where, result)
                   : read_step_chunks(database, places, where, result));
  return result;
}

Result<std::optional<StepSummary>> read_step_summary(const Database& database, std::int32_t ranks,
                                                     std::int32_t steps) {
  const std::optional<StepSummary> none;
  TESSERA_ASSIGN(const bool by_step, database.has_table(List<StepSummaryRow>::table));
  TESSERA_ASSIGN(const bool by_rank, database.has_table(List<RankSummaryRow>::table));
  if (!by_step || !by_rank) return none;  // of an earlier version
  const auto damaged = [](const char* table, std::int64_t key) {
    return Status(Code::corrupt,
                  fmt::format("The trace is damaged: {} {} is not where it belongs.", table, key));
  };
  StepSummary summary;
  TESSERA_TRY(read_rows<StepSummaryRow>(database, [&](const StepSummaryRow& row) -> Status {
    const bool right = row.step == std::ssize(summary.steps) && row.step < steps &&
                       row.slowest >= 0 && row.slowest < ranks;
    if (!right) return damaged("step_summary of step", row.step);
    summary.steps.push_back(row);
    return {};
  }));
  TESSERA_TRY(read_rows<RankSummaryRow>(database, [&](const RankSummaryRow& row) -> Status {
    const bool right = row.rank == std::ssize(summary.ranks) && row.rank < ranks;
    if (!right || row.steps < 0 || row.steps > steps) {
      return damaged("rank_summary of rank", row.rank);
    }
    summary.ranks.push_back(row);
    return {};
  }));
  if (summary.steps.empty() && summary.ranks.empty()) return none;
  if (std::ssize(summary.steps) == steps && std::ssize(summary.ranks) == ranks) return {summary};
  return damaged("the summary of steps", std::ssize(summary.steps));
}

}  // namespace tessera::storage
