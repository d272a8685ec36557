// SPDX-License-Identifier: Apache-2.0
#include "storage/sample_decoder.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <numeric>
#include <utility>

#include "storage/encoding.h"

namespace tessera::storage {

using enum SampleColumn;

namespace {

Status damaged_samples(const ChunkHeader& header, std::string_view what) {
  return {Code::corrupt, fmt::format("{} is damaged: {}.", header.describe(), what)};
}

/// What `data` has by itself: the rank that has the other columns, and which those are.
struct OwnColumns {
  Rank model = 0;
  std::uint64_t shared = 0;
  bool ordered = false;
  std::int64_t back = 0;  // how many chunks before this one the model is
  Edge first_edge = no_edge;
  std::int64_t first_allocated = 0, first_reserved = 0;
  SampleColumns columns;
};

Result<OwnColumns> read_columns(const ChunkHeader& header, std::span<const std::uint8_t> data) {
  OwnColumns own;
  std::array<std::int64_t, 2> start{};
  ColumnReader reader(data);
  if (!reader.read(start)) return damaged_samples(header, "its data ends early");
  if (!std::in_range<Rank>(start[0]) || start[1] < 0 || start[1] >= 2 * ordered_bit) {
    return damaged_samples(header, "it shares columns that nobody has");
  }
  own.model = static_cast<Rank>(start[0]);
  own.shared = static_cast<std::uint64_t>(start[1] % ordered_bit);
  own.ordered = start[1] >= ordered_bit;
  if (own.ordered) {
    std::array<std::int64_t, 4> first{};
    if (!reader.read(first)) return damaged_samples(header, "its data ends early");
    own.back = first[0];
    own.first_edge = first[1];
    own.first_allocated = first[2];
    own.first_reserved = first[3];
    if (own.back < 0 || own.back > header.seq) {
      return damaged_samples(header, "it shares columns that nobody has");
    }
  }
  for (std::size_t c = 0; c < sample_columns; ++c) {
    if ((own.shared >> c & 1) != 0) continue;
    own.columns[c].resize(static_cast<std::size_t>(header.count));
    if (!reader.read(own.columns[c])) return damaged_samples(header, "its data ends early");
  }
  if (!reader.at_end()) return damaged_samples(header, "its data is too long");
  return own;
}

Result<OwnColumns> read_all_columns(const ChunkHeader& header, std::span<const std::uint8_t> data,
                                    const SampleContext& context) {
  TESSERA_ASSIGN(OwnColumns own, read_columns(header, data));
  if (own.shared == 0) return own;
  ChunkHeader of_model = header;
  of_model.rank = own.model;
  of_model.seq -= own.back;
  TESSERA_ASSIGN(const std::vector<std::uint8_t> other, context.data_of(own.model, of_model));
  TESSERA_ASSIGN(OwnColumns model, read_columns(of_model, other));
  if (model.shared != 0) return damaged_samples(header, "what it shares is shared itself");
  if (model.ordered != own.ordered) return damaged_samples(header, "what it shares is no such one");
  for (std::size_t c = 0; c < sample_columns; ++c) {
    if ((own.shared >> c & 1) != 0) own.columns[c] = std::move(model.columns[c]);
  }
  return own;
}

/// The times of samples in the order of the chunk. Fails: corrupt.
Result<std::vector<Time>> times_of(const ChunkHeader& header, const OwnColumns& own,
                                   const SampleContext& context) {
  const SampleColumns& columns = own.columns;
  std::vector<Time> times;
  Edge at = own.first_edge;
  Time now = 0;
  for (std::size_t i = 0; i < columns[edge].size(); ++i) {
    at = wrapping_sum(at, columns[edge][i]);
    if (columns[edge][i] != 0 || (i == 0 && at != no_edge)) {
      const std::optional<Time> time = context.time_of(at);
      if (!time) return damaged_samples(header, "it is about an operation that has no span there");
      now = *time;
    }
    now = wrapping_sum(now, columns[offset][i]);
    times.push_back(now);
  }
  return times;
}

/// Of each sample by time its place in the chunk.
SampleOrder places_by_time(const OwnColumns& own, const std::vector<Time>& times) {
  std::vector<bool> goes(times.size(), false);
  for (std::size_t i = 0; own.ordered && i < goes.size(); ++i) goes[i] = own.columns[delta][i] < 0;
  if (own.ordered) return order_of_times(times, goes);
  SampleOrder places(times.size());
  std::iota(places.begin(), places.end(), 0U);
  return places;
}

}  // namespace

Status decode_shared_samples(const ChunkHeader& header, std::span<const std::uint8_t> data,
                             const SampleContext& context, MemorySeries& series) {
  if (header.count < 1 || header.count > static_cast<std::int64_t>(sample_count_max)) {
    return damaged_samples(header, fmt::format("it claims {} entries", header.count));
  }
  TESSERA_ASSIGN(OwnColumns own, read_all_columns(header, data, context));
  TESSERA_ASSIGN(const std::vector<Time> times, times_of(header, own, context));
  SampleColumns& columns = own.columns;
  std::int64_t number = 0;
  for (std::int64_t& value : columns[buffer]) {
    value = number = wrapping_sum(number, value);
    if (!std::in_range<std::int32_t>(number)) {
      return damaged_samples(header, fmt::format("buffer {} is impossible", number));
    }
  }
  std::int64_t counter = own.first_allocated, held = own.first_reserved;
  const SampleOrder places = places_by_time(own, times);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const std::size_t place = places[i];
    counter = wrapping_sum(wrapping_sum(counter, columns[delta][place]), columns[allocated][i]);
    held = wrapping_sum(held, columns[reserved][i]);
    const std::int64_t kind = columns[memory_class][place];
    if (kind < 0 || kind >= memory_class_count) {
      return {Code::not_supported,
              fmt::format("{} has memory class {}, which this version does not know.",
                          header.describe(), kind)};
    }
    series.time.push_back(times[place]);
    series.buffer.push_back(static_cast<std::int32_t>(columns[buffer][place]));
    series.memory_class.push_back(static_cast<MemoryClass>(kind));
    series.delta.emplace_back(columns[delta][place]);
    series.allocated.emplace_back(counter);
    series.reserved.emplace_back(held);
  }
  return {};
}

Result<ChangesOf> changes_of(const ChunkHeader& header, std::span<const std::uint8_t> data) {
  TESSERA_ASSIGN(const OwnColumns own, read_columns(header, data));
  constexpr std::uint64_t all = 1U << buffer | 1U << memory_class | 1U << delta;
  if ((own.shared & all) != all) return ChangesOf{header.rank, header.seq};
  return ChangesOf{own.model, header.seq - own.back};
}

namespace {

/// Sums by buffer and class.
class HeldSum {
 public:
  void add(const HeldBuffer& one) {
    HeldBuffer& sum = by_buffer_[{one.buffer, one.memory_class}];
    sum.buffer = one.buffer;
    sum.memory_class = one.memory_class;
    sum.bytes.value = wrapping_sum(sum.bytes.value, one.bytes.value);
    sum.count += one.count;
  }
  void add_change(std::int32_t buffer, MemoryClass memory_class, std::int64_t change) {
    add({buffer, memory_class, Bytes{change}, change > 0 ? 1 : -1});
  }
  std::vector<HeldBuffer> held() const {
    std::vector<HeldBuffer> held;
    for (const auto& [key, one] : by_buffer_) {
      if (one.bytes != Bytes{} || one.count != 0) held.push_back(one);
    }
    return held;
  }

 private:
  std::map<std::pair<std::int32_t, MemoryClass>, HeldBuffer> by_buffer_;
};

}  // namespace

Result<std::vector<HeldBuffer>> sum_shared_samples(const ChunkHeader& header,
                                                   std::span<const std::uint8_t> data,
                                                   const SampleContext& context) {
  TESSERA_ASSIGN(const OwnColumns own, read_all_columns(header, data, context));
  HeldSum sum;
  std::int64_t number = 0;
  for (std::size_t i = 0; i < own.columns[delta].size(); ++i) {
    number = wrapping_sum(number, own.columns[buffer][i]);
    const std::int64_t kind = own.columns[memory_class][i];
    if (!std::in_range<std::int32_t>(number) || kind < 0 || kind >= memory_class_count) {
      return damaged_samples(header, "a buffer or a class is impossible");
    }
    sum.add_change(static_cast<std::int32_t>(number), static_cast<MemoryClass>(kind),
                   own.columns[delta][i]);
  }
  return sum.held();
}

void add_held(std::span<const HeldBuffer> more, std::vector<HeldBuffer>& held) {
  HeldSum sum;
  for (const HeldBuffer& one : held) sum.add(one);
  for (const HeldBuffer& one : more) sum.add(one);
  held = sum.held();
}

std::vector<HeldBuffer> held_by(const MemorySeries& series) {
  HeldSum sum;
  for (std::size_t i = 0; i < series.time.size(); ++i) {
    sum.add_change(series.buffer[i], series.memory_class[i], series.delta[i].value);
  }
  return sum.held();
}

}  // namespace tessera::storage
