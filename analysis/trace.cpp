// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/trace.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/check_values.h"

namespace tessera::analysis {

Result<Trace> Trace::open(const std::string& path, Check check) {
  TESSERA_ASSIGN(storage::TraceReader reader, storage::TraceReader::open(path));
  Trace trace(std::move(reader));
  TESSERA_ASSIGN(trace.ops_, trace.reader_.ops());
  TESSERA_ASSIGN(trace.steps_, trace.reader_.rank_steps());
  TESSERA_ASSIGN(trace.peaks_, trace.reader_.peak_memory());
  TESSERA_ASSIGN(trace.diagnostics_, trace.reader_.diagnostics());
  TESSERA_ASSIGN(trace.shortages_, trace.reader_.memory_shortages());
  TESSERA_ASSIGN(trace.kernels_, trace.reader_.kernels());
  const Status values = check_values(trace);
  if (!values.ok()) {
    return Status(values.code(), fmt::format("\"{}\" is damaged: {}.", path, values.message()));
  }
  if (check == Check::now) TESSERA_TRY(trace.reader_.verify_tables());
  trace.find_step_ranges();
  return trace;
}

const storage::OpRow& Trace::op(std::int32_t id) const {
  static const storage::OpRow unknown{};
  // Ids mostly have no gaps.
  if (!ops_.empty() && id >= ops_.front().id) {
    const auto guess = static_cast<std::size_t>(std::int64_t{id} - ops_.front().id);
    if (guess < ops_.size() && ops_[guess].id == id) return ops_[guess];
  }
  const auto it = std::lower_bound(
      ops_.begin(), ops_.end(), id,
      [](const storage::OpRow& op, std::int32_t wanted) { return op.id < wanted; });
  return it == ops_.end() || it->id != id ? unknown : *it;
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
  auto ids = reader_.waited_for(op);
  return ids.ok() ? std::move(ids).value() : std::vector<std::int32_t>{};
}

bool Trace::recorded(Rank rank) const {
  const auto& ranks = run().recorded_ranks;
  return std::binary_search(ranks.begin(), ranks.end(), rank);
}

Rank Trace::slowest_recorded() const {
  Rank slowest = run().recorded_ranks.empty() ? 0 : run().recorded_ranks.front();
  if (steps_.steps == 0) return slowest;
  const auto row = static_cast<std::size_t>(last_step()) * static_cast<std::size_t>(steps_.ranks);
  for (Rank rank : run().recorded_ranks) {
    const auto at = [&](Rank r) { return steps_.compute[row + static_cast<std::size_t>(r)]; };
    if (at(rank) > at(slowest)) slowest = rank;
  }
  return slowest;
}

std::pair<Time, Time> Trace::step_range(std::int32_t step) const {
  if (step < 0 || step >= steps_.steps) return {0, std::max<Time>(info().end, 1)};
  return step_ranges_[static_cast<std::size_t>(step)];
}

std::int32_t Trace::step_at(Time time) const {
  const auto after = std::upper_bound(step_ranges_.begin(), step_ranges_.end(), time,
                                      [](Time t, const auto& range) { return t < range.first; });
  return after == step_ranges_.begin()
             ? 0
             : static_cast<std::int32_t>(after - step_ranges_.begin()) - 1;
}

void Trace::find_step_ranges() {
  for (std::int32_t step = 0; step < steps_.steps; ++step) {
    const auto first = static_cast<std::ptrdiff_t>(step) * steps_.ranks;
    const auto begin = steps_.begin.begin() + first;
    const auto end = steps_.end.begin() + first;
    step_ranges_.emplace_back(*std::min_element(begin, begin + steps_.ranks),
                              *std::max_element(end, end + steps_.ranks));
  }
}

}  // namespace tessera::analysis
