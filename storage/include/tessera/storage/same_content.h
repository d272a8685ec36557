// SPDX-License-Identifier: Apache-2.0
// Compares what two traces say, whatever form they say it in.
//
//   TESSERA_ASSIGN(const bool same, same_content(old_reader, new_reader));
#pragma once

#include "tessera/storage/trace_reader.h"

namespace tessera::storage {

/// Whether all rows are equal but the version of the writer, and all spans, samples and steps.
/// Files of two versions of the format can say the same in other bytes, and then have another
/// content hash. Reads everything, a rank at a time. Fails: as TraceReader.
Result<bool> same_content(const TraceReader& a, const TraceReader& b);

}  // namespace tessera::storage
