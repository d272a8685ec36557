// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero_plus_plus/codes.h"

namespace tessera {

Result<Codes> allocate_codes(Operations& operations, const BlockQuantizer& format,
                             std::int64_t rows, MemoryClass memory_class, StreamId stream,
                             const Cause& why) {
  const Numel codes = format.codes() * rows;
  const Numel scales = format.scales() * rows;
  TESSERA_ASSIGN(const BufferId c, operations.allocate("codes", bytes_of(codes, DType::uint8),
                                                       memory_class, stream, why));
  TESSERA_ASSIGN(const BufferId s, operations.allocate("scales", bytes_of(scales, DType::float32),
                                                       memory_class, stream, why));
  return Codes{View::whole(c, DType::uint8, codes), View::whole(s, DType::float32, scales)};
}

Status release_codes(Operations& operations, const Codes& codes, EventId after) {
  for (BufferId buffer : {codes.codes.buffer, codes.scales.buffer}) {
    TESSERA_TRY(operations.release(buffer, after));
  }
  return {};
}

}  // namespace tessera
