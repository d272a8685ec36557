// SPDX-License-Identifier: Apache-2.0
// What `nsys export --type sqlite` writes of a report of Nsight Systems: a process per file, or all
// processes of a node. Any table may be absent.
//
// Columns: https://docs.nvidia.com/nsight-systems/UserGuide/index.html#sqlite-schema-reference
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_nsys(const SourceFile& source);
Status read_nsys(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

}  // namespace tessera::exchange
