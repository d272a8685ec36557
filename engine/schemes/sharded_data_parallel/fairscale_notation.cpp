// SPDX-License-Identifier: Apache-2.0
// A recording of sharded_data_parallel as the collectives of FairScale's ShardedDataParallel and
// OSS: which operation, how many elements, to or from whom.
#include <fmt/format.h>

#include "tessera/recording.h"
#include "tessera/sharded_data_parallel.h"

namespace tessera {

std::vector<std::string> to_fairscale_notation(const Recording& recording) {
  std::vector<std::string> lines;
  std::string part;
  for (const Record& record : recording.records) {
    if (record.kind != Record::Kind::op || !communicator_of(record.op).valid()) continue;
    std::string line;
    if (const auto* reduce = std::get_if<Reduce>(&record.op.what)) {
      line = fmt::format("  reduce {}->{}", reduce->input.numel.value, reduce->root);
    } else if (const auto* sent = std::get_if<Broadcast>(&record.op.what)) {
      line = fmt::format("  broadcast {} from {}", sent->data.numel.value, sent->root);
    } else {
      continue;
    }
    const std::string now =
        record.cause.phase == Phase::init ? "startup" : fmt::format("step {}", record.cause.step);
    if (now != part) lines.push_back(part = now);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace tessera
