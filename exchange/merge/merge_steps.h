// SPDX-License-Identifier: Apache-2.0
// What files say of each rank in each step: the file that the rank is taken from, else any that
// knows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "exchange/merge/merge_clocks.h"
#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

class MergeSteps {
 public:
  static constexpr Time unknown = std::numeric_limits<Time>::max();

  /// Both must outlive it.
  MergeSteps(const MergeSources& all, const MergeClocks& clocks);

  /// By rank and the clock of the trace; `begin` is `unknown` where nobody knows. It may be changed
  /// until the next call. REQUIRES: the run has it. Fails: corrupt; as TraceReader.
  Result<storage::RankSteps*> at(std::int32_t step);

 private:
  Status read(std::int32_t from);
  void take(std::size_t source, const storage::RankSteps& of, std::size_t k, std::size_t rank);

  const MergeSources& all_;
  const MergeClocks& clocks_;
  std::vector<std::optional<std::size_t>> source_of_;  // by rank
  // Several at a time, as each file is asked for them anew.
  std::int32_t from_ = 0;
  std::vector<storage::RankSteps> read_;
};

}  // namespace tessera::exchange
