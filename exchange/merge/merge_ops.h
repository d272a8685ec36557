// SPDX-License-Identifier: Apache-2.0
// The operations of several files as those of one run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exchange/merge/merge_pages.h"
#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

struct MergeOp {
  storage::OpRow row;
  std::size_t source = 0;  // the first that has it, whose reader knows what it waited for
  const storage::CommunicatorRow* communicator = nullptr;  // null: not a collective
};

class MergeOps {
 public:
  /// `all` must outlive it.
  explicit MergeOps(const MergeSources& all);

  /// The next one, ascending by id, each once; null at the end. Valid until the next call. Fails:
  /// invalid_argument, where it is another one in another file; as TraceReader.
  Result<const MergeOp*> next();

 private:
  static std::int32_t id_of(const storage::OpRow& row) { return row.id; }

  const MergeSources& all_;
  MergePages<storage::OpRow, std::int32_t (*)(const storage::OpRow&)> pages_;
  MergeOp op_;
};

}  // namespace tessera::exchange
