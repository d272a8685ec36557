// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/kernel_times.h"

#include <algorithm>
#include <utility>

#include "tessera/assert.h"

namespace tessera {

void KernelTimes::record(std::int32_t op, Time time) {
  const auto row = std::lower_bound(rows_.begin(), rows_.end(), op,
                                    [](const Row& r, std::int32_t id) { return r.op < id; });
  if (row != rows_.end() && row->op == op) row->time = time;
}

// A step's rows are those that belong to none of the steps before it that are still here.
void KernelTimes::close_step() {
  std::size_t before = passed_;
  for (const std::size_t rows : steps_) before += rows;
  TESSERA_ASSERT(before <= rows_.size(), "rows of earlier steps are still here");
  steps_.push_back(rows_.size() - before);
}

std::vector<KernelTimes::Row> KernelTimes::take() {
  TESSERA_ASSERT(passed_ <= rows_.size(), "the rows of the step passed over are here");
  const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(std::exchange(passed_, 0));
  std::vector<Row> taken(rows_.begin(), end);
  rows_.erase(rows_.begin(), end);
  if (steps_.empty()) return taken;
  passed_ = steps_.front();
  steps_.pop_front();
  return taken;
}

}  // namespace tessera
