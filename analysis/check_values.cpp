// SPDX-License-Identifier: Apache-2.0
#include "analysis/check_values.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera::analysis {
namespace {

// 36 years; and what has no sum that leaves an int64, over so many.
constexpr Time time_max = Time{1} << 60;
constexpr std::int64_t total_max = std::int64_t{1} << 62;

Status wrong(const std::string& what) { return {Code::corrupt, what}; }

bool is_time(Time time) { return (time >= -time_max) & (time <= time_max); }

std::uint64_t bits(std::int64_t number) { return static_cast<std::uint64_t>(number); }

// The highest bit is set where `value` is below 0 or above `high`, which is 2^62 at most.
std::uint64_t outside(std::uint64_t value, std::int64_t high) {
  return value | (bits(high) - value);
}

// Columns one after the other, without a branch or a comparison, as there may be millions of ranks
// and steps.
bool all_possible(const storage::RankSteps& rows, std::size_t first, std::size_t last,
                  std::int64_t most) {
  std::uint64_t wrong = 0;
  const Time* const begin = rows.begin.data();
  const Time* const end = rows.end.data();
  for (std::size_t i = first; i < last; ++i) {
    const std::uint64_t from = bits(begin[i]), to = bits(end[i]);
    wrong |= outside(from + bits(time_max), 2 * time_max) |
             outside(to + bits(time_max), 2 * time_max) | outside(to - from, most);
  }
  for (const auto* column :
       {&rows.compute, &rows.communication, &rows.exposed, &rows.blocking, &rows.wait}) {
    const std::int64_t* const values = column->data();
    for (std::size_t i = first; i < last; ++i) wrong |= outside(bits(values[i]), most);
  }
  for (const auto* column : {&rows.peak_allocated, &rows.peak_reserved}) {
    const Bytes* const values = column->data();
    for (std::size_t i = first; i < last; ++i) wrong |= bits(values[i].value);
  }
  return wrong >> 63 == 0;
}

}  // namespace

Status check_ops(const std::vector<storage::OpRow>& ops) {
  std::int64_t left = total_max;  // so that the sum of all is a number
  for (const storage::OpRow& op : ops) {
    const bool right =
        op.bytes.value >= 0 && op.bytes.value <= left && op.flops >= 0 && op.step >= -1;
    left -= right ? op.bytes.value : 0;
    if (right) continue;
    return wrong(fmt::format("op {} has {} bytes and {} FLOP in step {}", op.id, op.bytes.value,
                             op.flops, op.step));
  }
  return {};
}

Status check_steps(const storage::RankSteps& rows, std::int32_t steps) {
  const auto ranks = static_cast<std::size_t>(std::max(rows.ranks, 1));
  const std::int64_t most = total_max / std::max(steps, 1);
  if (all_possible(rows, 0, rows.begin.size(), most)) return {};
  for (std::size_t i = 0; i < rows.begin.size(); ++i) {
    if (all_possible(rows, i, i + 1, most)) continue;
    return wrong(fmt::format("rank_step has impossible numbers for rank {} in step {}", i % ranks,
                             static_cast<std::size_t>(rows.step) + i / ranks));
  }
  return {};
}

Status check_summary(const storage::StepSummary& summary, std::int32_t steps) {
  const std::int64_t most = total_max / std::max(steps, 1);
  for (const storage::StepSummaryRow& row : summary.steps) {
    const bool right = is_time(row.begin) && is_time(row.end) && row.begin <= row.end &&
                       row.shortest >= 0 && row.shortest <= row.median &&
                       row.median <= row.longest && row.longest <= most &&
                       row.peak_allocated.value >= 0 && row.peak_reserved.value >= 0;
    if (!right) return wrong(fmt::format("step_summary of step {} is impossible", row.step));
  }
  for (const storage::RankSummaryRow& row : summary.ranks) {
    bool right = row.peak_allocated.value >= 0 && row.peak_reserved.value >= 0;
    for (const Time sum :
         {row.time, row.compute, row.communication, row.exposed, row.blocking, row.wait}) {
      right = right && sum >= 0 && sum <= total_max;
    }
    if (!right) return wrong(fmt::format("rank_summary of rank {} is impossible", row.rank));
  }
  return {};
}

Status check_values(const Trace& trace) {
  if (trace.holds_ops()) TESSERA_TRY(check_ops(trace.ops()));
  for (const PeakMemory& peak : trace.peaks()) {
    if (peak.allocated.value >= 0 && peak.reserved.value >= 0) continue;
    return wrong(fmt::format("peak_memory of step {} is negative", peak.step));
  }
  for (const storage::KernelRow& kernel : trace.kernels()) {
    if (kernel.time >= 0 && kernel.time <= time_max) continue;
    return wrong(fmt::format("op_kernel has {} ns for op {}", kernel.time, kernel.op));
  }
  for (const storage::MemoryShortageRow& row : trace.memory_shortages()) {
    bool right = is_time(row.time);
    for (const Bytes bytes : {row.request, row.capacity, row.free, row.largest_free}) {
      right = right && bytes >= Bytes{} && bytes.value <= total_max;
    }
    Bytes end{};  // so blocks do not overlap, and their sums are numbers
    for (const MemoryBlock& block : row.map) {
      right = right && block.address >= end && block.bytes.value <= total_max - block.address.value;
      if (right) end = block.address + block.bytes;
    }
    if (!right) return wrong(fmt::format("memory_shortage of rank {} is impossible", row.rank));
  }
  if (is_time(trace.info().end)) return {};
  return wrong(fmt::format("the run ends at {} ns", trace.info().end));
}

}  // namespace tessera::analysis
