// SPDX-License-Identifier: Apache-2.0
// What `tessera collective` was asked and what it answers, as numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/sim/collective_plan.h"

namespace tessera::cli {

/// "all_gather", ... and "all". Fails: invalid_argument, with what was meant.
Result<std::vector<OpKind>> parse_operations(const std::vector<std::string>& names);

/// "32K:16G" doubles from the first to the last, "1M,3M" are just those; K, M and G are powers of
/// 1,024. Fails: invalid_argument.
Result<std::vector<Bytes>> parse_sizes(const std::string& text);

/// One size. Fails: invalid_argument, naming `option`.
Result<Bytes> parse_size(const char* option, std::string_view text);

/// "32K"; bytes if nothing else is exact.
std::string short_size(Bytes bytes);

/// The fewest bytes of that collective among so many ranks: a float32 of each that gives a part.
Bytes least_size(OpKind kind, Index ranks);

struct CollectiveRow {
  Bytes bytes{};
  std::int64_t count = 0;  // float32 elements a rank gives, as nccl-tests count them
  sim::CollectivePlan plan;
  double algbw = 0;  // GB/s: bytes by time
  double busbw = 0;  // GB/s that a link sees
};

struct CollectiveTable {
  OpKind kind = OpKind::all_gather;
  std::vector<CollectiveRow> rows;
};

CollectiveTable collective_table(const sim::Cluster& cluster, const sim::CollectiveShape& group,
                                 OpKind kind, const std::vector<Bytes>& sizes);

}  // namespace tessera::cli
