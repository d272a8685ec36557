// SPDX-License-Identifier: Apache-2.0
// Traces of the PyTorch profiler (torch.profiler, Kineto): Chrome's JSON with categories, process
// groups and the arguments of collectives. One file per rank.
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_kineto(const SourceFile& source);
Status read_kineto(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

}  // namespace tessera::exchange
