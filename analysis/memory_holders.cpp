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

constexpr std::size_t samples_between = 16384;
constexpr int class_bits = 8;
static_assert(memory_class_count <= 1 << class_bits);

// A class belongs to the sample, as a buffer's may change.
std::int64_t key_of(std::int32_t buffer, MemoryClass memory_class) {
  return std::int64_t{buffer} * (1 << class_bits) + static_cast<std::int64_t>(memory_class);
}
MemoryClass class_of_key(std::int64_t key) {
  return static_cast<MemoryClass>(key & ((1 << class_bits) - 1));
}
std::int32_t buffer_of_key(std::int64_t key) {
  return static_cast<std::int32_t>(key >> class_bits);
}

}  // namespace

void HeldMemory::take(const storage::MemorySeries& series, std::size_t from, std::size_t to,
                      ByBuffer& held) {
  for (std::size_t i = from; i < to; ++i) {
    const auto at = held.try_emplace(key_of(series.buffer[i], series.memory_class[i])).first;
    at->second.bytes += series.delta[i];
    at->second.count += series.delta[i] > Bytes{} ? 1 : -1;
    if (at->second.bytes == Bytes{} && at->second.count == 0) held.erase(at);
  }
}

HeldMemory::HeldMemory(const storage::MemorySeries& series) {
  ByBuffer held;
  for (std::size_t from = 0; from < series.time.size(); from += samples_between) {
    kept_.emplace_back(held.begin(), held.end());
    take(series, from, std::min(from + samples_between, series.time.size()), held);
  }
}

MemoryMoment HeldMemory::at(const storage::MemorySeries& series,
                            std::span<const storage::BufferRow> buffers, std::size_t sample) const {
  MemoryMoment moment;
  if (series.time.empty()) return moment;
  const std::size_t last = std::min(sample, series.time.size() - 1);
  const std::size_t part = last / samples_between;
  ByBuffer all(kept_[part].begin(), kept_[part].end());
  take(series, part * samples_between, last + 1, all);
  moment.time = series.time[last];
  moment.allocated = series.allocated[last];
  moment.reserved = series.reserved[last];
  std::map<std::tuple<std::string, std::string, MemoryClass>, Holder> holders;
  for (const auto& [key, held] : all) {
    const MemoryClass memory_class = class_of_key(key);
    moment.by_class[static_cast<std::size_t>(memory_class)] += held.bytes;
    if (held.bytes <= Bytes{}) continue;
    const storage::BufferRow& buffer = buffer_of(buffers, buffer_of_key(key));
    Holder& holder = holders[{buffer.name, buffer.unit, memory_class}];
    holder.name = buffer.name;
    holder.unit = buffer.unit;
    holder.memory_class = memory_class;
    holder.bytes += held.bytes;
    holder.count += std::max<std::int64_t>(1, held.count);
  }
  moment.by_class[static_cast<std::size_t>(MemoryClass::reserved_unused)] =
      moment.reserved - moment.allocated;
  for (auto& [name, holder] : holders) moment.holders.push_back(std::move(holder));
  std::stable_sort(moment.holders.begin(), moment.holders.end(),
                   [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return moment;
}

MemoryMoment memory_at(const storage::MemorySeries& series,
                       std::span<const storage::BufferRow> buffers, std::size_t sample) {
  return HeldMemory(series).at(series, buffers, sample);
}

}  // namespace tessera::analysis
