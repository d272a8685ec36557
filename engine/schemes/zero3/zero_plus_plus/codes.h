// SPDX-License-Identifier: Apache-2.0
// Memory of quantised numbers while they are sent.
#pragma once

#include "engine/schemes/zero3/parameters/operations.h"
#include "engine/schemes/zero3/zero_plus_plus/block_quantizer.h"

namespace tessera {

struct Codes {
  View codes, scales;

  bool exist() const { return codes.buffer.valid(); }
};

/// Memory of so many rows of `format`.
Result<Codes> allocate_codes(Operations& operations, const BlockQuantizer& format,
                             std::int64_t rows, MemoryClass memory_class, StreamId stream,
                             const Cause& why);
Status release_codes(Operations& operations, const Codes& codes, EventId after);

}  // namespace tessera
