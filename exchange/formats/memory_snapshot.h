// SPDX-License-Identifier: Apache-2.0
// Snapshots of PyTorch's allocator: the pickle that `torch.cuda.memory._dump_snapshot` writes.
//
// The idea: a snapshot knows what is held now (`segments`) and what happened before
// (`device_traces`, the last so many events). Played backwards from now, the events tell what was
// held when they begin; played forwards, what was allocated and freed when. Sizes are those that
// were asked for, without what the allocator adds by rounding.
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_memory_snapshot(const SourceFile& source);
Status read_memory_snapshot(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

}  // namespace tessera::exchange
