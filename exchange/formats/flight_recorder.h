// SPDX-License-Identifier: Apache-2.0
// Dumps of PyTorch's Flight Recorder, which remembers the last collectives of each rank so that
// somebody can tell, after a hang, who did not come: pickles or JSON, of NCCL, gloo or others, one
// file per rank. A dump does not say of which rank it is, but its name does.
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_flight_recorder(const SourceFile& source);
Status read_flight_recorder(SourceFile& source, const ImportLimits& limits, ImportedRun& run);
/// Tells as diagnostics which collective of which group somebody has not called, or called
/// differently, and whose dump is absent.
Status conclude_flight_recorder(ImportedRun& run);

}  // namespace tessera::exchange
