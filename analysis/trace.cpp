// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/check_values.h"
#include "analysis/id_places.h"
#include "analysis/op_pages.h"
#include "tessera/assert.h"

namespace tessera::analysis {

Result<Trace> Trace::open(const std::string& path, Check check, Ops ops) {
  TESSERA_ASSIGN(storage::TraceReader reader, storage::TraceReader::open(path));
  Trace trace(std::move(reader));
  trace.path_ = path;
  TESSERA_TRY(trace.read_ops(check, ops));
  TESSERA_ASSIGN(trace.peaks_, trace.reader_.peak_memory());
  TESSERA_ASSIGN(trace.diagnostics_, trace.reader_.diagnostics());
  TESSERA_ASSIGN(trace.shortages_, trace.reader_.memory_shortages());
  TESSERA_ASSIGN(trace.kernels_, trace.reader_.kernels());
  TESSERA_TRY(trace.damaged(check_values(trace)));
  TESSERA_TRY(trace.read_steps(check));
  if (check == Check::now) TESSERA_TRY(trace.reader_.verify_tables());
  return trace;
}

Status Trace::read_ops(Check check, Ops ops) {
  constexpr std::int32_t few = 1 << 17;  // rows of 200 bytes and their texts
  if (check == Check::later && ops == Ops::all) {
    TESSERA_ASSIGN(const auto range, reader_.op_range());
    if (range.second - range.first > few) {
      pages_ = std::make_shared<OpPages>(range.first, range.second);
      return {};
    }
  }
  TESSERA_ASSIGN(ops_, ops == Ops::all ? reader_.ops() : reader_.collectives());
  places_ = std::make_shared<IdPlaces>(ops_, [](const storage::OpRow& op) { return op.id; });
  return {};
}

Result<std::vector<storage::OpRow>> Trace::op_rows(std::int32_t from, std::int32_t to) const {
  TESSERA_ASSIGN(std::vector<storage::OpRow> ops, reader_.ops(from, to));
  TESSERA_TRY(damaged(check_ops(ops)));
  return ops;
}

const std::vector<storage::OpRow>& Trace::ops() const {
  return pages_ == nullptr ? ops_ : pages_->all(reader_);
}

const std::vector<storage::OpRow>& Trace::typical_ops() const {
  return pages_ == nullptr ? ops_ : pages_->typical(reader_);
}

void Trace::forget_ops() {
  if (pages_ != nullptr) pages_->forget();
}

Status Trace::ops_problem() const {
  return pages_ == nullptr ? Status() : damaged(pages_->problem());
}

Status Trace::damaged(const Status& values) const {
  if (values.ok()) return values;
  return {values.code(), fmt::format("\"{}\" is damaged: {}.", path_, values.message())};
}

const storage::RankSteps& Trace::steps() const {
  TESSERA_ASSERT(holds_steps(), "steps that are in memory");
  return *steps_;
}

Result<storage::RankSteps> Trace::step_rows(std::int32_t step, std::int32_t count) const {
  TESSERA_ASSIGN(storage::RankSteps rows, reader_.rank_steps(step, step + count));
  TESSERA_TRY(damaged(check_steps(rows, step_count())));
  return rows;
}

Status Trace::read_steps(Check check) {
  constexpr std::int64_t few = 1 << 19;  // rows of 72 bytes
  if (check == Check::now || std::int64_t{rank_count()} * step_count() <= few) {
    TESSERA_ASSIGN(steps_, step_rows(0, step_count()));
  }
  TESSERA_ASSIGN(first_rows_, step_rows(0, std::min(2, step_count())));
  TESSERA_ASSIGN(last_rows_, step_rows(std::max(0, last_step()), std::min(1, step_count())));
  TESSERA_ASSIGN(auto summary, reader_.step_summary());
  if (!summary) return sum_up();
  summary_ = std::move(*summary);
  return damaged(check_summary(summary_, step_count()));
}

// Small traces have no summary, nor have unfinished ones.
Status Trace::sum_up() {
  storage::StepSums sums(rank_count());
  TESSERA_TRY(for_each_step(
      0, step_count(), [&](std::int32_t step, const storage::RankSteps& rows, std::size_t first) {
        sums.add(storage::batch_of(rows, step, first));
      }));
  summary_ = sums.summary();
  return {};
}

const storage::OpRow& Trace::op(std::int32_t id) const {
  static const storage::OpRow unknown{};
  if (pages_ != nullptr) {
    const storage::OpRow* const found = pages_->find(reader_, id);
    return found == nullptr ? unknown : *found;
  }
  const std::int32_t place = places_->find(id);
  return place < 0 ? unknown : ops_[static_cast<std::size_t>(place)];
}

const storage::StreamRow& Trace::stream(std::int32_t id) const {
  static const storage::StreamRow unknown{-1, "?", StreamRole::host};
  for (const auto& stream : info().streams) {
    if (stream.id == id) return stream;
  }
  return unknown;
}

const storage::CommunicatorRow* Trace::communicator(const storage::OpRow& op) const {
  for (const auto& communicator : info().communicators) {
    if (communicator.id == op.communicator) return &communicator;
  }
  return nullptr;
}

Time Trace::kernel_time(Rank rank, std::int32_t op) const {
  const auto it = std::lower_bound(kernels_.begin(), kernels_.end(), std::pair(op, rank),
                                   [](const storage::KernelRow& row, const auto& wanted) {
                                     return std::pair(row.op, row.rank) < wanted;
                                   });
  return it == kernels_.end() || it->op != op || it->rank != rank ? 0 : it->time;
}

std::vector<std::int32_t> Trace::waited_for(std::int32_t op) const {
  auto waits = reader_.waits(op, std::int64_t{op} + 1);
  return waits.ok() ? std::move(waits->after) : std::vector<std::int32_t>{};
}

std::vector<std::int32_t> Trace::waiting_for(std::int32_t op, std::int32_t most) const {
  auto ids = reader_.waiting_for(op, most);
  return ids.ok() ? std::move(ids).value() : std::vector<std::int32_t>{};
}

bool Trace::recorded(Rank rank) const {
  const auto& ranks = run().recorded_ranks;
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

Rank Trace::slowest_recorded() const {
  Rank slowest = run().recorded_ranks.empty() ? 0 : run().recorded_ranks.front();
  if (step_count() == 0) return slowest;
  for (Rank rank : run().recorded_ranks) {
    const auto at = [&](Rank r) { return last_rows_.compute[static_cast<std::size_t>(r)]; };
    if (at(rank) > at(slowest)) slowest = rank;
  }
  return slowest;
}

std::pair<Time, Time> Trace::step_range(std::int32_t step) const {
  if (step < 0 || step >= step_count()) return {0, std::max<Time>(info().end, 1)};
  const storage::StepSummaryRow& row = summary_.steps[static_cast<std::size_t>(step)];
  return {row.begin, row.end};
}

std::int32_t Trace::step_at(Time time) const {
  const auto& rows = summary_.steps;
  const auto after =
      std::upper_bound(rows.begin(), rows.end(), time,
                       [](Time t, const storage::StepSummaryRow& row) { return t < row.begin; });
  return after == rows.begin() ? 0 : static_cast<std::int32_t>(after - rows.begin()) - 1;
}

}  // namespace tessera::analysis
