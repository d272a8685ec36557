// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "storage/read_rows.h"
#include "storage/record_sql.h"
#include "storage/step_chunk.h"

namespace tessera::storage {
namespace {

constexpr std::int64_t step_size = 72;  // bytes in memory of a rank's step

/// Where the next rank's step belongs, as all have one in the order of steps and ranks.
class StepPlaces {
 public:
  StepPlaces(std::int32_t ranks, std::int32_t steps)
      : ranks_(ranks), size_(std::int64_t{ranks} * steps) {}

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
  std::int64_t at_ = 0;
};

/// As version 1 had them.
Status read_step_rows(const Database& database, RankSteps& steps) {
  const char* const table = List<RankStepRow>::table;
  StepPlaces places(steps.ranks, steps.steps);
  const Status status = read_rows<RankStepRow>(database, [&](const RankStepRow& row) -> Status {
    TESSERA_TRY(places.next(table, row.step, row.rank, 1));
    for_each_step_column<RankSteps, RankStepRow>(
        [&](auto to, auto from) { (steps.*to).push_back(row.*from); });
    return {};
  });
  return status.ok() ? places.end(table) : status;
}

Status read_step_chunks(const Database& database, RankSteps& steps) {
  const char* const table = List<RankStepChunkRow>::table;
  TESSERA_TRY(check_density(database, table, step_size));
  StepPlaces places(steps.ranks, steps.steps);
  const auto read = [&](const RankStepChunkRow& row) -> Status {
    const ChunkHeader header{row.rank, steps_stream, row.step, row.count, row.t0, row.t1};
    if (chunk_checksum(header, row.data) != row.checksum) {
      return {Code::corrupt,
              fmt::format("{} is damaged: its checksum is wrong.", header.describe())};
    }
    TESSERA_TRY(places.next(table, row.step, row.rank, row.count));
    return decode_steps(header, row.data, steps);
  };
  const Status status = read_rows<RankStepChunkRow>(database, read);
  return status.ok() ? places.end(table) : status;
}

}  // namespace

Result<RankSteps> read_rank_steps(const Database& database, std::int32_t ranks,
                                  std::int32_t steps) {
  RankSteps result;
  result.ranks = ranks;
  result.steps = steps;
  TESSERA_ASSIGN(const bool rows, database.has_table(List<RankStepRow>::table));
  TESSERA_TRY(rows ? read_step_rows(database, result) : read_step_chunks(database, result));
  return result;
}

}  // namespace tessera::storage
