// SPDX-License-Identifier: Apache-2.0
// Logs of NCCL's Inspector plugin (NCCL 2.28 and later, JSON): an object per collective with
// `header`, `metadata` and `coll_perf` or `p2p_perf`, one file per process.
//
// Format: https://github.com/NVIDIA/nccl/tree/master/plugins/profiler/inspector
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_nccl_inspector(const SourceFile& source);
Status read_nccl_inspector(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

}  // namespace tessera::exchange
