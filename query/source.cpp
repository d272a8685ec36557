// SPDX-License-Identifier: Apache-2.0
#include "query/source.h"

#include <algorithm>

namespace tessera::query {
namespace {

Result<analysis::Trace> open_whole(const std::string& path, bool verified) {
  TESSERA_ASSIGN(analysis::Trace trace, analysis::Trace::open(path, analysis::Trace::Check::later));
  if (!verified) TESSERA_TRY(trace.reader().verify_tables());
  return trace;
}

}  // namespace

Result<const analysis::Trace*> Source::trace() {
  if (!trace_) {
    trace_.emplace(open_whole(path_, verified_));
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

std::int32_t Source::steps_per_part(const analysis::Trace& trace) {
  constexpr std::int32_t rows_at_once = 1 << 17;  // of 72 bytes
  if (trace.holds_steps()) return std::max(1, trace.step_count());
  return std::max(1, rows_at_once / std::max(1, trace.rank_count()));
}

Result<std::shared_ptr<const storage::RankSteps>> Source::steps_of_part(std::int32_t part) {
  constexpr std::size_t parts_kept = 4;
  const analysis::Trace& from = trace_->value();
  if (from.holds_steps()) {  // which the trace keeps
    return std::shared_ptr<const storage::RankSteps>(std::shared_ptr<void>(), &from.steps());
  }
  const auto known = std::find_if(parts_.begin(), parts_.end(),
                                  [part](const auto& kept) { return kept.first == part; });
  if (known != parts_.end()) {
    std::rotate(parts_.begin(), known, known + 1);
    return parts_.front().second;
  }
  const std::int32_t many = steps_per_part(from), begin = part * many;
  TESSERA_ASSIGN(auto rows, from.step_rows(begin, std::min(many, from.step_count() - begin)));
  if (parts_.size() == parts_kept) parts_.pop_back();
  parts_.insert(parts_.begin(),
                {part, std::make_shared<const storage::RankSteps>(std::move(rows))});
  return parts_.front().second;
}

const storage::BufferRow& Source::buffer(std::int32_t id) const {
  static const storage::BufferRow unknown{};
  const auto found = std::lower_bound(
      buffers_.begin(), buffers_.end(), id,
      [](const storage::BufferRow& row, std::int32_t wanted) { return row.id < wanted; });
  return found == buffers_.end() || found->id != id ? unknown : *found;
}

}  // namespace tessera::query
