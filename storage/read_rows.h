// SPDX-License-Identifier: Apache-2.0
// Reads the ordinary tables of a trace into rows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "storage/database.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::storage {

/// All of them fail: corrupt (also where a number names a rank, stream or communicator that is not
/// there), not_supported, io_error. `info` is what `read_info` gave.
Result<TraceInfo> read_info(const Database& database);
Result<std::vector<OpRow>> read_ops(const Database& database, const TraceInfo& info);
/// Of the ids [from, to).
Result<std::vector<OpRow>> read_ops(const Database& database, const TraceInfo& info,
                                    std::int32_t from, std::int32_t to);
/// The first `most` with ids from `from` on.
Result<std::vector<OpRow>> read_first_ops(const Database& database, const TraceInfo& info,
                                          std::int32_t from, std::int32_t most);
Result<std::vector<OpSort>> read_op_sorts(const Database& database, std::int32_t from,
                                          std::int32_t to);
/// The least, and one past the largest; equal without ops.
Result<std::pair<std::int32_t, std::int32_t>> read_op_range(const Database& database);
Result<std::vector<OpRow>> read_collectives(const Database& database, const TraceInfo& info);
Result<std::vector<BufferRow>> read_buffers(const Database& database);
/// Of the steps [from, to), once `check_step_density` is through.
Result<RankSteps> read_rank_steps(const Database& database, std::int32_t ranks, std::int32_t from,
                                  std::int32_t to);
/// Whether what the table claims to hold can be in so few bytes. Fails: corrupt, io_error.
Status check_step_density(const Database& database);
/// None if the file has none.
Result<std::optional<StepSummary>> read_step_summary(const Database& database, std::int32_t ranks,
                                                     std::int32_t steps);
Result<std::vector<PeakMemory>> read_peak_memory(const Database& database, const TraceInfo& info);
Result<std::vector<DiagnosticRow>> read_diagnostics(const Database& database,
                                                    const TraceInfo& info);
Result<std::vector<MemoryShortageRow>> read_memory_shortages(const Database& database,
                                                             const TraceInfo& info);
Result<std::vector<KernelRow>> read_kernels(const Database& database, const TraceInfo& info);
/// The first `most` behind the one of `op` and `rank`.
Result<std::vector<KernelRow>> read_kernels_after(const Database& database, const TraceInfo& info,
                                                  std::int32_t op, Rank rank, std::int32_t most);
/// The same of one table, with entries of so many bytes in memory.
Status check_density(const Database& database, const char* table, std::int64_t entry_size,
                     const char* where = "");
/// Whether what the chunks claim to hold can be in so few bytes: a small file must not unpack to
/// more than memory has. Fails: corrupt, io_error.
Status check_chunk_density(const Database& database);

}  // namespace tessera::storage
