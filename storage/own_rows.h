// SPDX-License-Identifier: Apache-2.0
// Rows of tables that are no record of tessera/trace.h; their columns are listed in records.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "storage/database.h"
#include "tessera/trace.h"

namespace tessera::storage {

struct MetaRow {
  std::string_view key, value;
};
struct RankRow {
  Rank rank = 0;
  std::int32_t node = 0;
  std::int32_t recorded = 0;
};
struct StringRow {
  std::int32_t id = 0;
  std::string_view text;
};
struct AfterRow {
  std::int32_t op = 0;
  std::int32_t after = 0;
};
struct PeakClassRow {
  std::int64_t peak = 0;
  MemoryClass memory_class = MemoryClass::temporary;
  Bytes bytes{};
};
struct MemoryBlockRow : MemoryBlock {
  std::int64_t shortage = 0;
};
struct SpanChunkRow {
  Rank rank = 0;
  std::int32_t stream = 0;
  std::int64_t seq = 0, count = 0;
  Time t0 = 0, t1 = 0;
  std::int64_t checksum = 0;
  Blob data;
};
struct MemoryChunkRow {
  Rank rank = 0;
  std::int64_t seq = 0, count = 0;
  Time t0 = 0, t1 = 0;
  std::int64_t checksum = 0;
  Blob data;
};
struct RankStepChunkRow {
  std::int64_t step = 0;
  Rank rank = 0;
  std::int64_t count = 0;
  Time t0 = 0, t1 = 0;
  std::int64_t checksum = 0;
  Blob data;
};
/// One rank of a RankStepBatch.
template <class T>
using OneValue = T;
struct RankStepRow : RankStepColumns<OneValue> {
  Rank rank = 0;
};

}  // namespace tessera::storage
