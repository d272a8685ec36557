// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/memory_shortage.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

namespace tessera::analysis {
namespace {

// "... does not fit into 78.02 GiB; ...", as sim/lockstep/lockstep_trace.cpp writes it.
std::optional<Bytes> limit_in(const std::string& message) {
  constexpr std::string_view before = "does not fit into ";
  const std::size_t at = message.find(before);
  if (at == std::string::npos) return {};
  char* end = nullptr;
  const double gibibytes = std::strtod(message.c_str() + at + before.size(), &end);
  if (!std::string_view(end).starts_with(" GiB") || !(gibibytes > 0 && gibibytes < 1e6)) return {};
  return Bytes{std::llround(gibibytes * (1 << 30))};
}

}  // namespace

std::optional<MemoryShortage> memory_shortage(const storage::MemorySeries& series,
                                              std::span<const storage::BufferRow> buffers,
                                              const storage::DiagnosticRow& error) {
  const std::optional<Bytes> limit = limit_in(error.message);
  if (error.code != "out_of_memory" || !limit) return {};
  const auto first = std::lower_bound(series.time.begin(), series.time.end(), error.time);
  for (auto k = static_cast<std::size_t>(first - series.time.begin()); k < series.time.size();
       ++k) {
    if (series.delta[k] <= Bytes{} || series.reserved[k] <= *limit) continue;
    const auto buffer = std::lower_bound(
        buffers.begin(), buffers.end(), series.buffer[k],
        [](const storage::BufferRow& row, std::int32_t id) { return row.id < id; });
    if (buffer == buffers.end() || buffer->id != series.buffer[k]) continue;
    if (error.message.find(": " + buffer->name + " of ") == std::string::npos) continue;
    return MemoryShortage{.sample = k,
                          .time = series.time[k],
                          .request = *buffer,
                          .asked = series.delta[k],
                          .limit = *limit,
                          .allocated = series.allocated[k] - series.delta[k]};
  }
  return {};
}

}  // namespace tessera::analysis
