// SPDX-License-Identifier: Apache-2.0
#include "storage/sample_chunk.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "storage/encoding.h"

namespace tessera::storage {
namespace {

enum Column : std::size_t { edge, offset, buffer, memory_class, delta, allocated, reserved };
constexpr std::size_t models_max = 64;
// Of samples that are elsewhere than where the model's are, more cost more than edges of one's own.
constexpr std::size_t strangers_per_chunk = chunk_count_max / 8;

/// All columns but the times.
void set_values(std::span<const MemorySample> samples, SampleColumns& columns) {
  MemorySample last{};
  for (const MemorySample& sample : samples) {
    columns[buffer].push_back(std::int64_t{sample.buffer} - last.buffer);
    columns[memory_class].push_back(static_cast<std::int64_t>(sample.memory_class));
    columns[delta].push_back(sample.delta.value);
    // The allocator's counter is the last one plus delta: a column of zeros but for the first.
    columns[allocated].push_back(wrapping_difference(
        sample.allocated.value, wrapping_sum(last.allocated.value, sample.delta.value)));
    columns[reserved].push_back(wrapping_difference(sample.reserved.value, last.reserved.value));
    last = sample;
  }
}

Status damaged_samples(const ChunkHeader& header, std::string_view what) {
  return {Code::corrupt, fmt::format("{} is damaged: {}.", header.describe(), what)};
}

/// What `data` has by itself: the rank that has the other columns, and which those are.
struct OwnColumns {
  Rank model = 0;
  std::uint64_t shared = 0;
  SampleColumns columns;
};

Result<OwnColumns> read_columns(const ChunkHeader& header, std::span<const std::uint8_t> data) {
  OwnColumns own;
  std::array<std::int64_t, 2> start{};
  ColumnReader reader(data);
  if (!reader.read(start)) return damaged_samples(header, "its data ends early");
  if (!std::in_range<Rank>(start[0]) || start[1] < 0 || start[1] >= 1 << sample_columns) {
    return damaged_samples(header, "it shares columns that nobody has");
  }
  own.model = static_cast<Rank>(start[0]);
  own.shared = static_cast<std::uint64_t>(start[1]);
  for (std::size_t c = 0; c < sample_columns; ++c) {
    if ((own.shared >> c & 1) != 0) continue;
    own.columns[c].resize(static_cast<std::size_t>(header.count));
    if (!reader.read(own.columns[c])) return damaged_samples(header, "its data ends early");
  }
  if (!reader.at_end()) return damaged_samples(header, "its data is too long");
  return own;
}

Result<SampleColumns> read_all_columns(const ChunkHeader& header,
                                       std::span<const std::uint8_t> data,
                                       const SampleContext& context) {
  TESSERA_ASSIGN(OwnColumns own, read_columns(header, data));
  if (own.shared == 0) return std::move(own.columns);
  TESSERA_ASSIGN(const std::vector<std::uint8_t> other, context.data_of(own.model, header));
  ChunkHeader of_model = header;
  of_model.rank = own.model;
  TESSERA_ASSIGN(OwnColumns model, read_columns(of_model, other));
  if (model.shared != 0) return damaged_samples(header, "what it shares is shared itself");
  for (std::size_t c = 0; c < sample_columns; ++c) {
    if ((own.shared >> c & 1) != 0) own.columns[c] = std::move(model.columns[c]);
  }
  return std::move(own.columns);
}

}  // namespace

std::vector<Edge> SampleEncoder::edges_of(std::span<const MemorySample> samples, Rank rank) const {
  struct At {
    Edge begin = no_edge, end = no_edge;
  };
  std::unordered_map<Time, At> known;
  for (const MemorySample& sample : samples) known.try_emplace(sample.time);
  edges_.for_each(rank, [&](Edge found, Time time) {
    const auto at = known.find(time);
    if (at == known.end()) return;
    Edge& latest = found % 2 == 0 ? at->second.begin : at->second.end;
    latest = std::max(latest, found);
  });
  std::vector<Edge> edges;
  Edge last = no_edge;
  for (const MemorySample& sample : samples) {
    // What is allocated is for an operation that begins, what is released for one that ends.
    const At& at = known.at(sample.time);
    const bool comes = sample.delta.value > 0;
    const Edge first = comes ? at.begin : at.end, second = comes ? at.end : at.begin;
    if (first != no_edge || second != no_edge) last = first != no_edge ? first : second;
    edges.push_back(last);
  }
  return edges;
}

const SampleEncoder::Model* SampleEncoder::model_for(std::int64_t seq,
                                                     const SampleColumns& columns) const {
  for (const Model& model : models_) {
    if (model.seq == seq && model.columns[buffer] == columns[buffer] &&
        model.columns[delta] == columns[delta]) {
      return &model;
    }
  }
  return nullptr;
}

void SampleEncoder::find_times(std::span<const MemorySample> samples, Rank rank,
                               SampleColumns& columns) const {
  const std::vector<Edge> edges = edges_of(samples, rank);
  Edge last = no_edge;
  Time now = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    columns[edge].push_back(edges[i] - last);
    if (edges[i] != last) now = edges_.time(rank, edges[i]).value_or(0);
    columns[offset].push_back(wrapping_difference(samples[i].time, now));
    last = edges[i];
    now = samples[i].time;
  }
}

bool SampleEncoder::take_times(std::span<const MemorySample> samples, Rank rank, const Model& model,
                               SampleColumns& columns) const {
  std::size_t strangers = 0;
  Edge at = no_edge;
  Time now = 0;
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < samples.size() && strangers <= strangers_per_chunk; ++i) {
    at += model.columns[edge][i];
    if (model.columns[edge][i] != 0) {
      const std::optional<Time> time = edges_.time(rank, at);
      if (!time) return false;
      now = *time;
    }
    offsets.push_back(wrapping_difference(samples[i].time, now));
    strangers += offsets.back() != model.columns[offset][i] ? 1 : 0;
    now = samples[i].time;
  }
  if (strangers > strangers_per_chunk) return false;
  columns[edge] = model.columns[edge];
  columns[offset] = std::move(offsets);
  return true;
}

void SampleEncoder::encode(std::span<const MemorySample> samples, bool complete,
                           ChunkHeader& header, std::vector<std::uint8_t>& data) {
  header.count = static_cast<std::int64_t>(samples.size());
  header.t0 = header.t1 = samples.front().time;
  for (const MemorySample& sample : samples) {
    header.t0 = std::min(header.t0, sample.time);
    header.t1 = std::max(header.t1, sample.time);
  }
  SampleColumns columns;
  set_values(samples, columns);
  const Model* model = complete ? model_for(header.seq, columns) : nullptr;
  // Where the model's edges are not this rank's, it has edges of its own and shares the rest.
  if (model == nullptr || !take_times(samples, header.rank, *model, columns)) {
    find_times(samples, header.rank, columns);
  }
  std::array<std::int64_t, 2> start{header.rank, 0};
  for (std::size_t c = 0; model != nullptr && c < sample_columns; ++c) {
    start[0] = model->rank;
    if (model->columns[c] == columns[c]) start[1] |= std::int64_t{1} << c;
  }
  data.clear();
  append_column(start, data);
  for (std::size_t c = 0; c < sample_columns; ++c) {
    if ((start[1] >> c & 1) == 0) append_column(columns[c], data);
  }
  if (!complete || model != nullptr) return;
  models_.push_back({header.rank, header.seq, std::move(columns)});
  if (models_.size() > models_max) models_.pop_front();
}

Status decode_shared_samples(const ChunkHeader& header, std::span<const std::uint8_t> data,
                             const SampleContext& context, MemorySeries& series) {
  if (header.count < 1 || header.count > static_cast<std::int64_t>(chunk_count_max)) {
    return damaged_samples(header, fmt::format("it claims {} entries", header.count));
  }
  TESSERA_ASSIGN(const SampleColumns columns, read_all_columns(header, data, context));
  Edge at = no_edge;
  Time now = 0;
  std::int64_t number = 0, counter = 0, held = 0;
  for (std::size_t i = 0; i < columns[edge].size(); ++i) {
    at = wrapping_sum(at, columns[edge][i]);
    number = wrapping_sum(number, columns[buffer][i]);
    counter = wrapping_sum(wrapping_sum(counter, columns[delta][i]), columns[allocated][i]);
    held = wrapping_sum(held, columns[reserved][i]);
    if (columns[edge][i] != 0) {
      const std::optional<Time> time = context.time_of(at);
      if (!time) return damaged_samples(header, "it is about an operation that has no span there");
      now = *time;
    }
    now = wrapping_sum(now, columns[offset][i]);
    if (!std::in_range<std::int32_t>(number)) {
      return damaged_samples(header, fmt::format("buffer {} is impossible", number));
    }
    const std::int64_t kind = columns[memory_class][i];
    if (kind < 0 || kind >= memory_class_count) {
      return {Code::not_supported,
              fmt::format("{} has memory class {}, which this version does not know.",
                          header.describe(), kind)};
    }
    series.time.push_back(now);
    series.buffer.push_back(static_cast<std::int32_t>(number));
    series.memory_class.push_back(static_cast<MemoryClass>(kind));
    series.delta.emplace_back(columns[delta][i]);
    series.allocated.emplace_back(counter);
    series.reserved.emplace_back(held);
  }
  return {};
}

}  // namespace tessera::storage
