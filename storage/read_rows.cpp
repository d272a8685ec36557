// SPDX-License-Identifier: Apache-2.0
#include "storage/read_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "storage/close_trace.h"
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
  Rank next = 0;  // every rank has a row, so nothing that is made per rank outgrows the file
  TESSERA_TRY(read_rows<RankRow>(database, [&](const RankRow& row) -> Status {
    if (row.rank != next || row.rank >= run.ranks || row.recorded < 0 || row.recorded > 1) {
      return damaged(fmt::format("rank {} is listed in a run of {} ranks where rank {} belongs",
                                 row.rank, run.ranks, next));
    }
    if (row.recorded == 1) run.recorded_ranks.push_back(row.rank);
    ++next;
    return {};
  }));
  if (next == run.ranks) return {};
  return damaged(fmt::format("it lists {} of {} ranks", next, run.ranks));
}

Status check_communicators(const TraceInfo& info) {
  for (const CommunicatorRow& row : info.communicators) {
    if (row.group_size >= 1 && row.group_size <= info.run.ranks) continue;
    return damaged(fmt::format("communicator {} has groups of {} ranks in a run of {}", row.id,
                               row.group_size, info.run.ranks));
  }
  return {};
}

/// "100-119".
Status read_recorded_steps(Meta& meta, TraceRun& run) {
  const std::string& text = meta.text("recorded_steps");
  std::int32_t last = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, run.recorded_from);
  const bool dash = first.ec == std::errc() && first.ptr != end && *first.ptr == '-';
  const auto second = dash ? std::from_chars(first.ptr + 1, end, last) : first;
  const bool good = dash && second.ec == std::errc() && second.ptr == end &&
                    run.recorded_from >= 0 && last >= run.recorded_from &&
                    last < std::numeric_limits<std::int32_t>::max();
  run.recorded_to = last + 1;
  if (good) return {};
  return damaged(fmt::format("meta.recorded_steps is \"{}\" in place of steps", text));
}

bool has_stream(const TraceInfo& info, std::int32_t id) {
  return std::any_of(info.streams.begin(), info.streams.end(),
                     [id](const StreamRow& row) { return row.id == id; });
}

bool has_communicator(const TraceInfo& info, std::int32_t id) {
  return id == -1 || std::any_of(info.communicators.begin(), info.communicators.end(),
                                 [id](const CommunicatorRow& row) { return row.id == id; });
}

bool has_rank(const TraceInfo& info, Rank rank) { return rank >= 0 && rank < info.run.ranks; }

}  // namespace

Result<TraceInfo> read_info(const Database& database) {
  Meta meta;
  TESSERA_TRY(meta.read(database));
  TraceInfo info;
  info.unfinished = !meta.has("content_hash");
  if (info.unfinished && !meta.has("version")) {
    return Status(Code::corrupt,
                  "Nothing is in the recording yet, or it was stopped before anything was in it.");
  }
  TESSERA_TRY(read_run(database, info.run));
  info.run.options = meta.text("options");
  if (meta.has("sources")) info.run.sources = meta.text("sources");
  info.run.version = meta.text("version");
  info.content_hash = meta.text("content_hash");
  info.run.records_memory = !meta.has("recorded_memory");
  if (meta.has("recorded_steps")) TESSERA_TRY(read_recorded_steps(meta, info.run));
  TESSERA_TRY(meta.number("seed", info.run.seed));
  if (info.unfinished) {
    TESSERA_ASSIGN(const ReachedByTables reached, reached_by(database));
    info.steps = reached.steps;
    info.end = reached.time;
  } else {
    TESSERA_TRY(meta.number("steps", info.steps));
    TESSERA_TRY(meta.number("end", info.end));
  }
  TESSERA_TRY(read_all(database, info.streams));
  TESSERA_TRY(read_all(database, info.communicators));
  TESSERA_TRY(read_all(database, info.units));
  TESSERA_TRY(check_communicators(info));
  if (info.steps >= 0) return info;
  return damaged(fmt::format("it claims {} steps", info.steps));
}

namespace {

Result<std::vector<OpRow>> read_ops_where(const Database& database, const TraceInfo& info,
                                          const std::string& where, std::int32_t most = -1) {
  std::vector<OpRow> ops;
  const auto take = [&](OpRow&& row) -> Status {
    if (!has_stream(info, row.stream)) {
      return damaged(
          fmt::format("op {} runs on stream {}, which is not there", row.id, row.stream));
    }
    if (!has_communicator(info, row.communicator)) {
      return damaged(
          fmt::format("op {} uses communicator {}, which is not there", row.id, row.communicator));
    }
    ops.push_back(std::move(row));
    return {};
  };
  TESSERA_TRY(read_rows<OpRow>(database, take, where, most));
  return ops;
}

}  // namespace

Result<std::vector<OpRow>> read_ops(const Database& database, const TraceInfo& info) {
  return read_ops_where(database, info, "");
}

Result<std::vector<OpRow>> read_ops(const Database& database, const TraceInfo& info,
                                    std::int32_t from, std::int32_t to) {
  return read_ops_where(database, info, fmt::format(" WHERE id >= {} AND id < {}", from, to));
}

Result<std::vector<OpRow>> read_first_ops(const Database& database, const TraceInfo& info,
                                          std::int32_t from, std::int32_t most) {
  return read_ops_where(database, info, fmt::format(" WHERE id >= {}", from), most);
}

Result<std::vector<OpSort>> read_op_sorts(const Database& database, std::int32_t from,
                                          std::int32_t to) {
  TESSERA_ASSIGN(Statement rows, database.prepare("SELECT id, stream, kind, phase, reason FROM op"
                                                  " WHERE id >= ? AND id < ? ORDER BY id"));
  rows.bind(from, to);
  std::vector<OpSort> sorts;
  const auto known = [&](int column, EnumWords words) {
    return rows.integer(column) >= 0 && rows.integer(column) <= words.last;
  };
  for (;;) {
    TESSERA_ASSIGN(const bool row, rows.next());
    if (!row) return sorts;
    if (!known(2, words_of(OpKind{})) || !known(3, words_of(Phase{})) ||
        !known(4, words_of(Reason{}))) {
      return Status(
          Code::not_supported,
          fmt::format("Op {} is of a sort that this version does not know.", rows.integer(0)));
    }
    sorts.push_back({rows.int32(0), rows.int32(1), static_cast<OpKind>(rows.integer(2)),
                     static_cast<Phase>(rows.integer(3)), static_cast<Reason>(rows.integer(4))});
  }
}

Result<std::pair<std::int32_t, std::int32_t>> read_op_range(const Database& database) {
  // In one query for both SQLite would read them all.
  TESSERA_ASSIGN(Statement row,
                 database.prepare("SELECT (SELECT min(id) FROM op), (SELECT max(id) FROM op)"));
  TESSERA_TRY(row.next().status());
  if (row.type(0) == SQLITE_NULL) return std::pair(0, 0);
  const std::int64_t first = row.integer(0), last = row.integer(1);
  if (first >= 0 && last < std::numeric_limits<std::int32_t>::max()) {
    return std::pair(static_cast<std::int32_t>(first), static_cast<std::int32_t>(last + 1));
  }
  return damaged(fmt::format("ops have ids from {} to {}", first, last));
}

Result<std::vector<OpRow>> read_collectives(const Database& database, const TraceInfo& info) {
  std::string kinds;
  for (int kind = 0; kind <= static_cast<int>(op_kind_last); ++kind) {
    if (!is_collective(static_cast<OpKind>(kind))) continue;
    kinds += fmt::format("{}{}", kinds.empty() ? "" : ", ", kind);
  }
  return read_ops_where(database, info, fmt::format(" WHERE kind IN ({})", kinds));
}

Result<std::vector<BufferRow>> read_buffers(const Database& database) {
  std::vector<BufferRow> buffers;
  TESSERA_TRY(read_all(database, buffers));
  return buffers;
}

Result<std::vector<PeakMemory>> read_peak_memory(const Database& database, const TraceInfo& info) {
  std::vector<PeakMemory> peaks;
  std::vector<std::int64_t> ids;
  TESSERA_TRY(read_rows<PeakMemory>(database, [&](std::int64_t id, PeakMemory&& peak) -> Status {
    if (!has_rank(info, peak.first_rank) || peak.end_rank <= peak.first_rank ||
        peak.end_rank > info.run.ranks) {
      return damaged(fmt::format("peak_memory {} is of the ranks [{}, {}) in a run of {}", id,
                                 peak.first_rank, peak.end_rank, info.run.ranks));
    }
    ids.push_back(id);
    peaks.push_back(peak);
    return {};
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

Result<std::vector<DiagnosticRow>> read_diagnostics(const Database& database,
                                                    const TraceInfo& info) {
  std::vector<DiagnosticRow> diagnostics;
  TESSERA_TRY(
      read_rows<DiagnosticRow>(database, [&](std::int64_t id, DiagnosticRow&& row) -> Status {
        if (row.rank != -1 && !has_rank(info, row.rank)) {
          return damaged(fmt::format("diagnostic {} is about rank {} in a run of {} ranks", id,
                                     row.rank, info.run.ranks));
        }
        diagnostics.push_back(std::move(row));
        return {};
      }));
  return diagnostics;
}

Result<std::vector<MemoryShortageRow>> read_memory_shortages(const Database& database,
                                                             const TraceInfo& info) {
  std::vector<MemoryShortageRow> shortages;
  for (const char* table : {List<TraceMemoryShortage>::table, List<MemoryBlockRow>::table}) {
    TESSERA_ASSIGN(const bool known, database.has_table(table));
    if (!known) return shortages;  // older traces lack the tables
  }
  std::vector<std::int64_t> ids;
  TESSERA_TRY(read_rows<TraceMemoryShortage>(
      database, [&](std::int64_t id, TraceMemoryShortage&& row) -> Status {
        if (!has_rank(info, row.rank)) {
          return damaged(fmt::format("memory_shortage {} is of rank {} in a run of {} ranks", id,
                                     row.rank, info.run.ranks));
        }
        ids.push_back(id);
        shortages.push_back({row, {}});
        return {};
      }));
  std::size_t at = 0;
  TESSERA_TRY(read_rows<MemoryBlockRow>(database, [&](const MemoryBlockRow& row) -> Status {
    while (at < ids.size() && ids[at] < row.shortage) ++at;
    if (at == ids.size() || ids[at] != row.shortage) {
      return damaged(fmt::format("memory_shortage has no row {}", row.shortage));
    }
    if (row.bytes <= Bytes{}) {
      return damaged(fmt::format("memory_block has a block of {} bytes", row.bytes.value));
    }
    shortages[at].map.push_back(row);
    return {};
  }));
  return shortages;
}

namespace {

Result<std::vector<KernelRow>> read_kernels_where(const Database& database, const TraceInfo& info,
                                                  const std::string& where,
                                                  std::int32_t most = -1) {
  std::vector<KernelRow> kernels;
  TESSERA_ASSIGN(const bool known, database.has_table(List<KernelRow>::table));
  if (!known) return kernels;  // older traces lack the table
  const auto take = [&](KernelRow&& row) -> Status {
    if (!has_rank(info, row.rank)) {
      return damaged(
          fmt::format("op_kernel has rank {} in a run of {} ranks", row.rank, info.run.ranks));
    }
    kernels.push_back(row);
    return {};
  };
  TESSERA_TRY(read_rows<KernelRow>(database, take, where, most));
  return kernels;
}

}  // namespace

Result<std::vector<KernelRow>> read_kernels(const Database& database, const TraceInfo& info) {
  return read_kernels_where(database, info, "");
}

Result<std::vector<KernelRow>> read_kernels_after(const Database& database, const TraceInfo& info,
                                                  std::int32_t op, Rank rank, std::int32_t most) {
  return read_kernels_where(database, info, fmt::format(" WHERE (op, rank) > ({}, {})", op, rank),
                            most);
}

namespace {

// The columns of a chunk take a byte at least for each entry but where one value stands for all, as
// in half of them at most; a chunk that is full of such columns is small and has much in it.
constexpr std::int64_t expansion = 64, expanded_anyway = 8 << 20;
// A chunk that claims more than it can have is refused by itself.
constexpr std::int64_t span_size = 28;  // bytes in memory

}  // namespace

Status check_density(const Database& database, const char* table, std::int64_t entry_size,
                     const char* where) {
  TESSERA_ASSIGN(Statement sums,
                 database.prepare(fmt::format(
                     "SELECT total(min(max(count, 0), 4096)), total(length(data) + 32) FROM {}{}",
                     table, where)));
  TESSERA_TRY(sums.next().status());
  const double size = sums.real(0) * static_cast<double>(entry_size);
  const double packed = sums.real(1);
  if (size <= static_cast<double>(expansion) * packed + static_cast<double>(expanded_anyway)) {
    return {};
  }
  return damaged(fmt::format("{} has {:.0f} entries in {:.0f} bytes, more than any recording",
                             table, sums.real(0), packed));
}

Status check_chunk_density(const Database& database) {
  // What ranks share is in the chunk of one of them; their reader counts by itself.
  return check_density(database, List<SpanChunkRow>::table, span_size, " WHERE stream >= 0");
}

}  // namespace tessera::storage
