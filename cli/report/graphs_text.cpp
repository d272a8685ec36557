// SPDX-License-Identifier: Apache-2.0
#include "cli/report/graphs_text.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "cli/report/table.h"

namespace tessera::cli {

std::string graphs_text(const GraphCounts& counts) {
  const std::int64_t bodies = counts.all() - counts.launched;
  std::vector<std::string> why;
  for (const auto& [count, reason] :
       {std::pair(counts.first, "for the first time"), std::pair(counts.moved, "on other memory"),
        std::pair(counts.unrepeated, "as they repeat nothing")}) {
    if (count > 0) why.push_back(fmt::format("{} {}", with_separators(count), reason));
  }
  return fmt::format("{} of {} computations were launched as CUDA graphs; {} ran their bodies{}{}",
                     with_separators(counts.launched), with_separators(counts.all()),
                     with_separators(bodies), why.empty() ? "" : ": ", fmt::join(why, ", "));
}

}  // namespace tessera::cli
