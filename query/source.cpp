// SPDX-License-Identifier: Apache-2.0
#include "query/source.h"

#include <algorithm>

namespace tessera::query {

Result<const analysis::Trace*> Source::trace() {
  if (!trace_) {
    trace_.emplace(analysis::Trace::open(path_));
    if (trace_->ok()) {
      TESSERA_ASSIGN(buffers_, (*trace_)->reader().buffers());
    }
  }
  TESSERA_TRY(trace_->status());
  return &trace_->value();
}

Result<const analysis::CriticalPath*> Source::critical_path() {
  if (!path_of_step_) {
    const analysis::Trace& from = trace_->value();
    path_of_step_.emplace(analysis::critical_path(from, analysis::typical_step(from)));
  }
  TESSERA_TRY(path_of_step_->status());
  return &path_of_step_->value();
}

const storage::BufferRow& Source::buffer(std::int32_t id) const {
  static const storage::BufferRow unknown{};
  const auto found = std::lower_bound(
      buffers_.begin(), buffers_.end(), id,
      [](const storage::BufferRow& row, std::int32_t wanted) { return row.id < wanted; });
  return found == buffers_.end() || found->id != id ? unknown : *found;
}

}  // namespace tessera::query
