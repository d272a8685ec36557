// SPDX-License-Identifier: Apache-2.0
#include "inspector/model/step_memory.h"

#include <algorithm>
#include <map>

namespace tessera::inspector {
namespace {

constexpr auto unused = static_cast<std::size_t>(MemoryClass::reserved_unused);

/// The peaks of a rank by step.
std::map<std::int32_t, const PeakMemory*> peaks_of(const analysis::Trace& trace, Rank rank) {
  std::map<std::int32_t, const PeakMemory*> peaks;
  for (const PeakMemory& peak : trace.peaks()) {
    if (peak.first_rank <= rank && rank < peak.end_rank) peaks[peak.step] = &peak;
  }
  return peaks;
}

void append(storage::MemorySeries& series, Time time, MemoryClass memory_class, Bytes delta,
            Bytes allocated, Bytes reserved) {
  series.time.push_back(time);
  series.buffer.push_back(-1);
  series.memory_class.push_back(memory_class);
  series.delta.push_back(delta);
  series.allocated.push_back(allocated);
  series.reserved.push_back(reserved);
}

// Where nobody says what a peak consists of.
std::map<std::int32_t, PeakMemory> heights_of(const analysis::Trace& trace, Rank rank) {
  std::map<std::int32_t, PeakMemory> peaks;
  // What cannot be read is named where numbers of steps are shown.
  static_cast<void>(trace.for_each_step(
      0, trace.step_count(),
      [&](std::int32_t step, const storage::RankSteps& rows, std::size_t first) {
        const std::size_t i = first + static_cast<std::size_t>(rank);
        PeakMemory& peak = peaks[step];
        peak.allocated = rows.peak_allocated[i];
        peak.reserved = std::max(rows.peak_reserved[i], peak.allocated);
        peak.by_class[static_cast<std::size_t>(MemoryClass::unknown)] = peak.allocated;
      }));
  return peaks;
}

}  // namespace

storage::MemorySeries series_of_peaks(const analysis::Trace& trace, Rank rank) {
  storage::MemorySeries series;
  series.rank = rank;
  MemoryStack held{};
  Bytes allocated{}, reserved{};
  auto peaks = peaks_of(trace, rank);
  std::map<std::int32_t, PeakMemory> heights;
  if (peaks.empty()) heights = heights_of(trace, rank);
  for (const auto& [step, height] : heights) peaks[step] = &height;
  for (const auto& [step, peak] : peaks) {
    const Time time = trace.step_range(step).first;
    const Bytes both = std::max(reserved, peak->reserved);
    bool changed = false;
    // What is freed comes first, so that no moment between two peaks is higher than both.
    for (const bool frees : {true, false}) {
      for (std::size_t c = 0; c < held.size(); ++c) {
        const Bytes delta = peak->by_class[c] - held[c];
        const auto memory_class = static_cast<MemoryClass>(c);
        if (c == unused || delta == Bytes{} || (delta < Bytes{}) != frees) continue;
        if (is_on_device(memory_class)) allocated += delta;
        held[c] = peak->by_class[c];
        append(series, time, memory_class, delta, allocated, both);
        changed = true;
      }
    }
    if (!changed && peak->reserved != reserved) {
      append(series, time, MemoryClass::temporary, Bytes{}, allocated, peak->reserved);
    }
    if (!series.time.empty()) series.reserved.back() = peak->reserved;
    reserved = peak->reserved;
  }
  return series;
}

void hold_before(const std::vector<storage::HeldBuffer>& held, Time from,
                 storage::MemorySeries& series) {
  // Without a sample nobody says what is reserved.
  const Bytes reserved = series.time.empty() ? Bytes{} : series.reserved.front();
  storage::MemorySeries all;
  all.rank = series.rank;
  Bytes allocated{};
  for (const storage::HeldBuffer& one : held) {
    const std::int64_t count = std::max<std::int64_t>(1, one.count);
    for (std::int64_t k = 0; k < count; ++k) {
      // Equal parts, the last one with the rest.
      const Bytes part{one.bytes.value / count};
      const Bytes delta = k + 1 < count ? part : Bytes{one.bytes.value - part.value * (count - 1)};
      if (is_on_device(one.memory_class)) allocated += delta;
      append(all, from, one.memory_class, delta, allocated, std::max(reserved, allocated));
      all.buffer.back() = one.buffer;
    }
  }
  const auto join = [](auto& front, const auto& back) {
    front.insert(front.end(), back.begin(), back.end());
  };
  join(all.time, series.time);
  join(all.buffer, series.buffer);
  join(all.memory_class, series.memory_class);
  join(all.delta, series.delta);
  join(all.allocated, series.allocated);
  join(all.reserved, series.reserved);
  series = std::move(all);
}

}  // namespace tessera::inspector
