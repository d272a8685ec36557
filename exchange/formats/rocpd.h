// SPDX-License-Identifier: Apache-2.0
// Databases of ROCm's profilers: rpd_tracer's (.rpd: rocpd_op, rocpd_api, rocpd_string), and rocpd
// of rocprofiler-sdk (rocprofv3), whose tables carry the id of the run in their names and whose
// views, which would join them, are never used. Of the latter, versions 3 (times in the rows) and
// 4 (times in rocpd_timestamp).
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_rpd(const SourceFile& source);
Status read_rpd(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

bool is_rocpd(const SourceFile& source);
Status read_rocpd(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

}  // namespace tessera::exchange
