// SPDX-License-Identifier: Apache-2.0
// Execution traces: MLCommons Chakra's protobuf (.et: a GlobalMetadata and Nodes, each after its
// length) and its JSON, and the JSON that PyTorch's ExecutionTraceObserver writes (schemas 1.0.1
// to 1.1.1). One file per rank, which its name tells.
//
// Schema: https://github.com/mlcommons/chakra/blob/main/schema/protobuf/et_def.proto
#pragma once

#include "exchange/import/format.h"

namespace tessera::exchange {

bool is_chakra(const SourceFile& source);
Status read_chakra(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

/// The same as JSON.
bool is_chakra_json(const SourceFile& source);
Status read_chakra_json(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

bool is_execution_trace(const SourceFile& source);
Status read_execution_trace(SourceFile& source, const ImportLimits& limits, ImportedRun& run);

}  // namespace tessera::exchange
