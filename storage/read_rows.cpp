// SPDX-License-Identifier: Apache-2.0
#include "storage/read_rows.h"

#include <fmt/format.h>

#include <charconv>
#include <map>

namespace tessera::storage {
namespace {

Status damaged(std::string_view what) {
  return {Code::corrupt, fmt::format("The trace is damaged: {}.", what)};
}

/// The enumerator in `column`. Fails: not_supported, if it is later than `last`.
template <class E>
Status read_enum(const Statement& row, int column, E last, const char* what, E& value) {
  const std::int64_t number = row.integer(column);
  if (number < 0 || number > static_cast<std::int64_t>(last)) {
    return {Code::not_supported,
            fmt::format("The trace has {} {}, which this version does not know. Use a newer "
                        "version of tessera.",
                        what, number)};
  }
  value = static_cast<E>(number);
  return {};
}

constexpr auto last_memory_class = static_cast<MemoryClass>(memory_class_count - 1);

/// Calls read_row(statement) -> Status for each row.
template <class F>
Status for_each_row(const Database& database, std::string_view sql, F read_row) {
  TESSERA_ASSIGN(Statement statement, database.prepare(sql));
  for (;;) {
    TESSERA_ASSIGN(const bool row, statement.next());
    if (!row) return {};
    TESSERA_TRY(read_row(statement));
  }
}

class Meta {
 public:
  Status read(const Database& database) {
    return for_each_row(database, "SELECT key, value FROM meta", [&](const Statement& row) {
      values_.emplace(row.text(0), row.text(1));
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

Status read_run(const Database& database, TraceRun& run) {
  run.ranks = 0;
  TESSERA_TRY(for_each_row(
      database,
      "SELECT name, model, scheme, cluster, carrier, ranks, ranks_per_node, parameters,"
      " tokens_per_step, model_flops_per_step, peak_flops_per_rank, peak_name, memory_per_rank"
      " FROM run",
      [&](const Statement& row) {
        run.name = row.text(0);
        run.model = row.text(1);
        run.scheme = row.text(2);
        run.cluster = row.text(3);
        run.backend = row.text(4);
        run.ranks = row.int32(5);
        run.ranks_per_node = row.int32(6);
        run.parameters = row.integer(7);
        run.tokens_per_step = row.integer(8);
        run.model_flops_per_step = row.real(9);
        run.peak_flops_per_rank = row.real(10);
        run.peak_name = row.text(11);
        run.memory_per_rank = Bytes{row.integer(12)};
        return Status();
      }));
  if (run.ranks < 1 || run.ranks_per_node < 1) {
    return damaged(
        fmt::format("the run has {} ranks, {} on a node", run.ranks, run.ranks_per_node));
  }
  return for_each_row(database, "SELECT rank FROM rank WHERE recorded != 0 ORDER BY rank",
                      [&](const Statement& row) {
                        run.recorded_ranks.push_back(row.int32(0));
                        return Status();
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
  TESSERA_TRY(for_each_row(
      database, "SELECT id, name, role FROM stream ORDER BY id", [&](const Statement& row) {
        StreamRow stream{row.int32(0), std::string(row.text(1)), {}};
        info.streams.push_back(std::move(stream));
        return read_enum(row, 2, StreamRole::host, "stream role", info.streams.back().role);
      }));
  TESSERA_TRY(for_each_row(database,
                           "SELECT id, name, group_size, group_count FROM communicator ORDER BY id",
                           [&](const Statement& row) {
                             info.communicators.push_back({row.int32(0), std::string(row.text(1)),
                                                           row.int32(2), row.int32(3)});
                             return Status();
                           }));
  TESSERA_TRY(
      for_each_row(database, "SELECT id, name, parameters, numel, padding FROM unit ORDER BY id",
                   [&](const Statement& row) {
                     info.units.push_back({row.int32(0), std::string(row.text(1)), row.int32(2),
                                           Numel{row.integer(3)}, Numel{row.integer(4)}});
                     return Status();
                   }));
  return info;
}

Result<std::vector<OpRow>> read_ops(const Database& database) {
  std::vector<OpRow> ops;
  const auto read_op = [&](const Statement& row) -> Status {
    OpRow op;
    op.id = row.int32(0);
    TESSERA_TRY(read_enum(row, 1, op_kind_last, "op kind", op.kind));
    op.stream = row.int32(2);
    op.communicator = row.int32(3);
    op.step = row.int32(4);
    op.micro_batch = row.int32(5);
    TESSERA_TRY(read_enum(row, 6, Phase::optimizer, "phase", op.phase));
    TESSERA_TRY(read_enum(row, 7, reason_last, "reason", op.reason));
    op.unit = row.text(8);
    op.module = row.text(9);
    op.label = row.text(10);
    op.bytes = Bytes{row.integer(11)};
    TESSERA_TRY(read_enum(row, 12, DType::uint8, "dtype", op.dtype));
    op.flops = row.real(13);
    op.algorithm = row.text(14);
    ops.push_back(std::move(op));
    return {};
  };
  TESSERA_TRY(for_each_row(
      database,
      "SELECT id, kind, stream, communicator, step, micro_batch, phase, reason,"
      " (SELECT text FROM string WHERE id = unit), (SELECT text FROM string WHERE id = module),"
      " (SELECT text FROM string WHERE id = label), bytes, dtype, flops,"
      " (SELECT text FROM string WHERE id = algorithm) FROM op ORDER BY op.id",
      read_op));
  return ops;
}

Result<std::vector<BufferRow>> read_buffers(const Database& database) {
  std::vector<BufferRow> buffers;
  TESSERA_TRY(for_each_row(database,
                           "SELECT id, (SELECT text FROM string WHERE id = name),"
                           " (SELECT text FROM string WHERE id = unit), memory_class, bytes"
                           " FROM buffer ORDER BY buffer.id",
                           [&](const Statement& row) {
                             buffers.push_back({row.int32(0),
                                                std::string(row.text(1)),
                                                std::string(row.text(2)),
                                                {},
                                                Bytes{row.integer(4)}});
                             return read_enum(row, 3, last_memory_class, "memory class",
                                              buffers.back().memory_class);
                           }));
  return buffers;
}

Result<RankSteps> read_rank_steps(const Database& database, std::int32_t ranks,
                                  std::int32_t steps) {
  RankSteps result;
  result.ranks = ranks;
  result.steps = steps;
  const std::int64_t size = std::int64_t{ranks} * steps;
  std::int64_t at = 0;
  TESSERA_TRY(for_each_row(
      database,
      "SELECT step, rank, begin, end, compute, communication, exposed, blocking, wait,"
      " peak_allocated, peak_reserved FROM rank_step ORDER BY step, rank",
      [&](const Statement& row) -> Status {
        if (row.integer(0) != at / ranks || row.integer(1) != at % ranks || at >= size) {
          return damaged(fmt::format("rank_step has (step {}, rank {}) where ({}, {}) belongs",
                                     row.integer(0), row.integer(1), at / ranks, at % ranks));
        }
        ++at;
        int column = 2;
        for (auto* times : {&result.begin, &result.end, &result.compute, &result.communication,
                            &result.exposed, &result.blocking, &result.wait}) {
          times->push_back(row.integer(column++));
        }
        result.peak_allocated.emplace_back(row.integer(column++));
        result.peak_reserved.emplace_back(row.integer(column));
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
  TESSERA_TRY(for_each_row(database,
                           "SELECT id, step, first_rank, end_rank, allocated, reserved"
                           " FROM peak_memory ORDER BY id",
                           [&](const Statement& row) {
                             ids.push_back(row.integer(0));
                             peaks.push_back({.step = row.int32(1),
                                              .first_rank = row.int32(2),
                                              .end_rank = row.int32(3),
                                              .allocated = Bytes{row.integer(4)},
                                              .reserved = Bytes{row.integer(5)}});
                             return Status();
                           }));
  std::size_t at = 0;
  const auto read_class = [&](const Statement& row) -> Status {
    while (at < ids.size() && ids[at] < row.integer(0)) ++at;
    if (at == ids.size() || ids[at] != row.integer(0)) {
      return damaged(fmt::format("peak_memory has no row {}", row.integer(0)));
    }
    MemoryClass memory_class{};
    TESSERA_TRY(read_enum(row, 1, last_memory_class, "memory class", memory_class));
    peaks[at].by_class[static_cast<std::size_t>(memory_class)] = Bytes{row.integer(2)};
    return {};
  };
  TESSERA_TRY(for_each_row(database,
                           "SELECT peak, memory_class, bytes FROM peak_memory_class ORDER BY peak",
                           read_class));
  return peaks;
}

Result<std::vector<DiagnosticRow>> read_diagnostics(const Database& database) {
  std::vector<DiagnosticRow> diagnostics;
  TESSERA_TRY(for_each_row(
      database, "SELECT severity, code, message, rank, op, time FROM diagnostic ORDER BY id",
      [&](const Statement& row) {
        diagnostics.push_back({{},
                               std::string(row.text(1)),
                               std::string(row.text(2)),
                               row.int32(3),
                               row.int32(4),
                               row.integer(5)});
        return read_enum(row, 0, TraceDiagnostic::Severity::data_loss, "severity",
                         diagnostics.back().severity);
      }));
  return diagnostics;
}

Result<std::vector<KernelRow>> read_kernels(const Database& database) {
  std::vector<KernelRow> kernels;
  TESSERA_ASSIGN(const bool known, database.has_table("op_kernel"));
  if (!known) return kernels;  // an older trace
  TESSERA_TRY(for_each_row(database, "SELECT op, rank, time FROM op_kernel ORDER BY op, rank",
                           [&](const Statement& row) -> Status {
                             kernels.push_back({row.int32(0), row.int32(1), row.integer(2)});
                             return {};
                           }));
  return kernels;
}

}  // namespace tessera::storage
