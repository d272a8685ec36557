// SPDX-License-Identifier: Apache-2.0
// Rows of span_chunk and memory_chunk as headers and data whose checksum is right.
#pragma once

#include <fmt/format.h>

#include "storage/chunk.h"
#include "storage/database.h"

namespace tessera::storage {

/// The row's header and data, after checking the checksum. Columns: rank, stream, seq, count, t0,
/// t1, checksum, data.
inline Result<ChunkHeader> read_chunk(const Statement& row) {
  const ChunkHeader header{row.int32(0),   row.int32(1),   row.integer(2),
                           row.integer(3), row.integer(4), row.integer(5)};
  if (chunk_checksum(header, row.blob(7)) == row.integer(6)) return header;
  return Status(Code::corrupt,
                fmt::format("{} is damaged: its checksum is wrong.", header.describe()));
}

/// Calls use(header, data) -> Status for each row of `chunks`.
template <class F>
Status for_each_chunk(Statement& chunks, F use) {
  for (;;) {
    TESSERA_ASSIGN(const bool row, chunks.next());
    if (!row) return {};
    TESSERA_ASSIGN(const ChunkHeader header, read_chunk(chunks));
    TESSERA_TRY(use(header, chunks.blob(7)));
  }
}

}  // namespace tessera::storage
