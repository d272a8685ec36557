// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/memory_holders.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tessera::analysis {
namespace {

const storage::BufferRow& buffer_of(std::span<const storage::BufferRow> buffers, std::int32_t id) {
  static const storage::BufferRow unknown{};
  const auto found = std::lower_bound(
      buffers.begin(), buffers.end(), id,
      [](const storage::BufferRow& row, std::int32_t wanted) { return row.id < wanted; });
  return found == buffers.end() || found->id != id ? unknown : *found;
}

}  // namespace

MemoryMoment memory_at(const storage::MemorySeries& series,
                       std::span<const storage::BufferRow> buffers, std::size_t sample) {
  MemoryMoment moment;
  if (series.time.empty()) return moment;
  const std::size_t last = std::min(sample, series.time.size() - 1);
  // A class belongs to the sample, as a buffer's may change.
  std::map<std::pair<std::int32_t, MemoryClass>, std::pair<Bytes, std::int64_t>> held;
  for (std::size_t i = 0; i <= last; ++i) {
    auto& [bytes, count] = held[{series.buffer[i], series.memory_class[i]}];
    bytes += series.delta[i];
    count += series.delta[i] > Bytes{} ? 1 : -1;
    moment.by_class[static_cast<std::size_t>(series.memory_class[i])] += series.delta[i];
  }
  moment.time = series.time[last];
  moment.allocated = series.allocated[last];
  moment.reserved = series.reserved[last];
  moment.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] =
      moment.reserved - moment.allocated;
  std::map<std::tuple<std::string, std::string, MemoryClass>, Holder> holders;
  for (const auto& [key, value] : held) {
    if (value.first <= Bytes{}) continue;
    const storage::BufferRow& buffer = buffer_of(buffers, key.first);
    Holder& holder = holders[{buffer.name, buffer.unit, key.second}];
    holder.name = buffer.name;
    holder.unit = buffer.unit;
    holder.memory_class = key.second;
    holder.bytes += value.first;
    holder.count += std::max<std::int64_t>(1, value.second);
  }
  for (auto& [key, holder] : holders) moment.holders.push_back(std::move(holder));
  std::stable_sort(moment.holders.begin(), moment.holders.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return moment;
}

}  // namespace tessera::analysis
