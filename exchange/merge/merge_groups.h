// SPDX-License-Identifier: Apache-2.0
// Which ranks meet in the collectives of a communicator.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "exchange/merge/merge_sources.h"

namespace tessera::exchange {

struct MergeGroup {
  std::vector<std::size_t> members;  // that are in a file, by index of a rank, ascending
  bool whole = false;                // there are no others
};

class MergeGroups {
 public:
  /// `all` must outlive it.
  explicit MergeGroups(const MergeSources& all) : all_(all) {}

  /// All that have a member in a file. Where nobody can tell, each rank is alone in one that is not
  /// whole. REQUIRES: a row of one of the files.
  const std::vector<MergeGroup>& of(const storage::CommunicatorRow& communicator);

 private:
  std::vector<MergeGroup> find(const storage::CommunicatorRow& communicator) const;

  const MergeSources& all_;
  std::map<const storage::CommunicatorRow*, std::vector<MergeGroup>> known_;
};

}  // namespace tessera::exchange
