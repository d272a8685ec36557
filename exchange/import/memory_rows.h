// SPDX-License-Identifier: Apache-2.0
// Memory of imported ranks as rows: kinds of buffers, samples, and what each step's peak consists
// of.
#pragma once

#include "exchange/import/step_table.h"

namespace tessera::exchange {

/// Rows of all ranks. What was allocated before the recording began is of class `unknown`.
void write_memory(const ImportedRun& run, const StepTable& steps, TraceSink& sink);

}  // namespace tessera::exchange
