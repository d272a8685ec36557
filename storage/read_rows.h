// SPDX-License-Identifier: Apache-2.0
// Reads the ordinary tables of a trace into rows.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/database.h"
#include "tessera/storage/trace_reader.h"

namespace tessera::storage {

/// Fails: corrupt (also: an unfinished recording), not_supported, io_error.
Result<TraceInfo> read_info(const Database& database);
Result<std::vector<OpRow>> read_ops(const Database& database);
Result<std::vector<BufferRow>> read_buffers(const Database& database);
Result<RankSteps> read_rank_steps(const Database& database, std::int32_t ranks, std::int32_t steps);
Result<std::vector<PeakMemory>> read_peak_memory(const Database& database);
Result<std::vector<DiagnosticRow>> read_diagnostics(const Database& database);
Result<std::vector<KernelRow>> read_kernels(const Database& database);

}  // namespace tessera::storage
