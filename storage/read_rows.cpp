// SPDX-License-Identifier: Apache-2.0
#include "storage/read_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

#include "storage/record_sql.h"

namespace tessera::storage {
namespace {

Status damaged(std::string_view what) {
  return {Code::corrupt, fmt::format("The trace is damaged: {}.", what)};
}

class Meta {
 public:
  Status read(const Database& database) {
    return read_rows<MetaRow>(database, [&](const MetaRow& row) {
      values_.emplace(row.key, row.value);
      return Status();
    });
  }
  bool has(const char* key) const { return values_.contains(key); }
  const std::string& text(const char* key) { return values_[key]; }
  /// Fails: corrupt.
  template <class T>
  Status number(const char* key, T& value) {
    const std::string& digits = values_[key];
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc() && end == digits.data() + digits.size()) return {};
    return damaged(fmt::format("meta.{} is \"{}\" instead of a number", key, digits));
  }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// All rows of a table that is read as it is.
template <class Record>
Status read_all(const Database& database, std::vector<Record>& rows) {
  return read_rows<Record>(database, [&](Record&& row) {
    rows.push_back(std::move(row));
    return Status();
  });
}

Status read_run(const Database& database, TraceRun& run) {
  run.ranks = 0;
  TESSERA_TRY(read_rows<TraceRun>(database, [&](TraceRun&& row) {
    run = std::move(row);
    return Status();
  }));
  if (run.ranks < 1 || run.ranks_per_node < 1) {
    return damaged(
        fmt::format("the run has {} ranks, {} on a node", run.ranks, run.ranks_per_node));
  }
  return read_rows<RankRow>(database, [&](const RankRow& row) -> Status {
    if (row.recorded == 0) return {};
    if (row.rank < 0 || row.rank >= run.ranks) {
      return damaged(fmt::format("rank {} is recorded in a run of {} ranks", row.rank, run.ranks));
    }
    run.recorded_ranks.push_back(row.rank);
    return {};
  });
}

}  // namespace

Result<TraceInfo> read_info(const Database& database) {
  Meta meta;
  TESSERA_TRY(meta.read(database));
  if (!meta.has("content_hash")) {
    return Status(Code::corrupt,
                  "The recording is unfinished: the run still writes it or was stopped.");
  }
  TraceInfo info;
  TESSERA_TRY(read_run(database, info.run));
  info.run.options = meta.text("options");
  if (meta.has("sources")) info.run.sources = meta.text("sources");
  info.run.version = meta.text("version");
  info.content_hash = meta.text("content_hash");
  TESSERA_TRY(meta.number("seed", info.run.seed));
  TESSERA_TRY(meta.number("steps", info.steps));
  TESSERA_TRY(meta.number("end", info.end));
  TESSERA_TRY(read_all(database, info.streams));
  TESSERA_TRY(read_all(database, info.communicators));
  TESSERA_TRY(read_all(database, info.units));
  return info;
}

Result<std::vector<OpRow>> read_ops(const Database& database) {
  std::vector<OpRow> ops;
  TESSERA_TRY(read_all(database, ops));
  return ops;
}

Result<std::vector<BufferRow>> read_buffers(const Database& database) {
  std::vector<BufferRow> buffers;
  TESSERA_TRY(read_all(database, buffers));
  return buffers;
}

Result<RankSteps> read_rank_steps(const Database& database, std::int32_t ranks,
                                  std::int32_t steps) {
  RankSteps result;
  result.ranks = ranks;
  result.steps = steps;
  const std::int64_t size = std::int64_t{ranks} * steps;
  std::int64_t at = 0;
  TESSERA_TRY(read_rows<RankStepRow>(database, [&](const RankStepRow& row) -> Status {
    if (row.step != at / ranks || row.rank != at % ranks || at >= size) {
      return damaged(fmt::format("rank_step has (step {}, rank {}) where ({}, {}) belongs",
                                 row.step, row.rank, at / ranks, at % ranks));
    }
    ++at;
    for_each_step_column<RankSteps, RankStepRow>(
        [&](auto to, auto from) { (result.*to).push_back(row.*from); });
    return {};
  }));
  if (at != size) {
    return damaged(fmt::format("rank_step has {} rows instead of {}", at, size));
  }
  return result;
}

Result<std::vector<PeakMemory>> read_peak_memory(const Database& database) {
  std::vector<PeakMemory> peaks;
  std::vector<std::int64_t> ids;
  TESSERA_TRY(read_rows<PeakMemory>(database, [&](std::int64_t id, PeakMemory&& peak) {
    ids.push_back(id);
    peaks.push_back(peak);
    return Status();
  }));
  std::size_t at = 0;
  TESSERA_TRY(read_rows<PeakClassRow>(database, [&](const PeakClassRow& row) -> Status {
    while (at < ids.size() && ids[at] < row.peak) ++at;
    if (at == ids.size() || ids[at] != row.peak) {
      return damaged(fmt::format("peak_memory has no row {}", row.peak));
    }
    peaks[at].by_class[static_cast<std::size_t>(row.memory_class)] = row.bytes;
    return {};
  }));
  return peaks;
}

Result<std::vector<DiagnosticRow>> read_diagnostics(const Database& database) {
  std::vector<DiagnosticRow> diagnostics;
  TESSERA_TRY(read_rows<DiagnosticRow>(database, [&](std::int64_t, DiagnosticRow&& row) {
    diagnostics.push_back(std::move(row));
    return Status();
  }));
  return diagnostics;
}

Result<std::vector<KernelRow>> read_kernels(const Database& database) {
  std::vector<KernelRow> kernels;
  TESSERA_ASSIGN(const bool known, database.has_table(List<KernelRow>::table));
  if (known) TESSERA_TRY(read_all(database, kernels));  // older traces lack the table
  return kernels;
}

}  // namespace tessera::storage
