// SPDX-License-Identifier: Apache-2.0
#include "storage/sample_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include "storage/encoding.h"

namespace tessera::storage {
namespace {

enum Column : std::size_t { edge, offset, buffer, memory_class, delta, allocated, reserved };
constexpr std::size_t models_max = 16;
// Of samples that are elsewhere than where the model's are, more cost more than edges of one's own.
constexpr std::size_t strangers_max = 512, strangers_part = 8;
// Behind the bits of columns: samples are in the order of edges.
constexpr std::int64_t ordered_bit = std::int64_t{1} << sample_columns;

std::pair<Time, Time> times_between(std::span<const MemorySample> samples) {
  std::pair<Time, Time> times{samples.front().time, samples.front().time};
  for (const MemorySample& sample : samples) {
    times.first = std::min(times.first, sample.time);
    times.second = std::max(times.second, sample.time);
  }
  return times;
}

/// The columns that are in the order of the chunk, but the times.
void set_changes(std::span<const MemorySample> ordered, SampleColumns& columns) {
  for (const Column c : {buffer, memory_class, delta}) columns[c].resize(ordered.size());
  std::int32_t last = 0;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    columns[buffer][i] = std::int64_t{ordered[i].buffer} - std::exchange(last, ordered[i].buffer);
    columns[memory_class][i] = static_cast<std::int64_t>(ordered[i].memory_class);
    columns[delta][i] = ordered[i].delta.value;
  }
}

/// The columns that are in the order of time.
void set_counters(std::span<const MemorySample> samples, SampleColumns& columns) {
  for (const Column c : {allocated, reserved}) columns[c].resize(samples.size());
  std::int64_t counter = 0, held = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const MemorySample& sample = samples[i];
    // The allocator's counter is the last one plus delta: a column of zeros but for the first.
    columns[allocated][i] =
        wrapping_difference(sample.allocated.value, wrapping_sum(counter, sample.delta.value));
    columns[reserved][i] = wrapping_difference(sample.reserved.value, held);
    counter = sample.allocated.value;
    held = sample.reserved.value;
  }
}

std::vector<Time> times_in(std::span<const MemorySample> samples, const SampleOrder& order) {
  std::vector<Time> times(order.size());
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = samples[order[i]].time;
  return times;
}

Status damaged_samples(const ChunkHeader& header, std::string_view what) {
  return {Code::corrupt, fmt::format("{} is damaged: {}.", header.describe(), what)};
}

/// A bit for each that both have.
std::uint32_t shared_columns(const SampleColumns& a, const SampleColumns& b) {
  std::uint32_t shared = 0;
  for (std::size_t c = 0; c < sample_columns; ++c) shared |= a[c] == b[c] ? 1U << c : 0U;
  return shared;
}

/// Those of the order that a chunk has from its model.
constexpr std::uint32_t columns_of_order =
    1U << edge | 1U << buffer | 1U << memory_class | 1U << delta;

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

}  // namespace

std::vector<Edge> SampleEncoder::edges_of(std::span<const MemorySample> samples, Rank rank) const {
  const std::pair<Time, Time> times = times_between(samples);
  std::vector<std::pair<Time, Edge>> known;
  edges_.for_each(rank, [&](Edge found, Time time) {
    if (times.first <= time && time <= times.second) known.emplace_back(time, found);
  });
  std::sort(known.begin(), known.end());
  // The latest begin and the latest end at a time.
  struct At {
    Edge begin = no_edge, end = no_edge;
  } at;
  Time now = times.first;
  auto from = known.begin();
  const auto go_to = [&](Time time) {
    if (time < now) from = known.begin();  // not where samples ascend
    at = {};
    now = time;
    while (from != known.end() && from->first < time) ++from;
    for (auto here = from; here != known.end() && here->first == time; ++here) {
      (here->second % 2 == 0 ? at.begin : at.end) = here->second;
    }
  };
  go_to(now);
  std::vector<Edge> edges;
  edges.reserve(samples.size());
  Edge latest = no_edge;
  for (const MemorySample& sample : samples) {
    if (sample.time != now) go_to(sample.time);
    // What is allocated is for an operation that begins, what is released for one that ends.
    const bool comes = sample.delta.value > 0;
    const Edge wanted = comes ? at.begin : at.end, other = comes ? at.end : at.begin;
    if (wanted != no_edge || other != no_edge) latest = wanted != no_edge ? wanted : other;
    edges.push_back(latest);
  }
  return edges;
}

std::optional<std::size_t> SampleEncoder::find_times(Chunk& chunk,
                                                     std::span<const Time> times) const {
  std::vector<std::int64_t>& offsets = chunk.columns[offset];
  offsets.resize(times.size());
  std::size_t strangers = 0;
  Edge last = chunk.first_edge;
  Time now = 0;
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (chunk.edges[i] != last || (i == 0 && last != no_edge)) {
      const std::optional<Time> time = edges_.time(chunk.rank, chunk.edges[i]);
      if (!time) return {};
      now = *time;
    }
    offsets[i] = wrapping_difference(times[i], now);
    strangers += offsets[i] != 0 ? 1 : 0;
    last = chunk.edges[i];
    now = times[i];
  }
  return strangers;
}

std::optional<SampleEncoder::Chunk> SampleEncoder::like(const Step& step,
                                                        std::span<const MemorySample> samples,
                                                        const ChunkHeader& header) const {
  const Chunk& model = *step.model;
  Chunk chunk{.rank = header.rank, .seq = header.seq, .ordered = true};
  chunk.edges.resize(samples.size());
  std::vector<Time> times(samples.size());
  Time now = 0;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Edge at = chunk.edges[i] = model.edges[i] + step.shift;
    if (i == 0 || at != chunk.edges[i - 1]) now = edges_.time(header.rank, at).value_or(now);
    times[i] = now = wrapping_sum(now, model.columns[offset][i]);
  }
  std::optional<SampleOrder> order = order_like(model.samples, model.order, times, samples);
  if (!order || !restores(samples, *order)) return {};
  chunk.first_edge = chunk.edges.front();
  const std::optional<std::size_t> strangers = find_times(chunk, times_in(samples, *order));
  if (!strangers || *strangers > std::max(strangers_max, samples.size() / strangers_part)) {
    return {};
  }
  chunk.as_model = columns_of_order;
  set_counters(samples, chunk.columns);
  count_from_first(chunk);
  return chunk;
}

SampleEncoder::Chunk SampleEncoder::alone(std::span<const MemorySample> samples,
                                          const ChunkHeader& header) const {
  Chunk chunk{.rank = header.rank, .seq = header.seq};
  chunk.edges = edges_of(samples, header.rank);
  chunk.order = order_by(chunk.edges);
  chunk.ordered = restores(samples, chunk.order);
  if (chunk.ordered) {
    if (!std::is_sorted(chunk.edges.begin(), chunk.edges.end())) {
      std::sort(chunk.edges.begin(), chunk.edges.end());
    }
    chunk.first_edge = chunk.edges.front();
  } else {
    std::iota(chunk.order.begin(), chunk.order.end(), 0U);
  }
  for (const std::uint32_t i : chunk.order) chunk.samples.push_back(samples[i]);
  Edge last = chunk.first_edge;
  for (const Edge at : chunk.edges) chunk.columns[edge].push_back(at - std::exchange(last, at));
  // The edges are the rank's own.
  static_cast<void>(find_times(chunk, times_in(samples, chunk.order)));
  set_changes(chunk.samples, chunk.columns);
  set_counters(samples, chunk.columns);
  if (chunk.ordered) count_from_first(chunk);
  return chunk;
}

SampleEncoder::Chunk SampleEncoder::plain(std::span<const MemorySample> samples,
                                          const ChunkHeader& header) {
  Chunk chunk{.rank = header.rank, .seq = header.seq};
  chunk.columns[edge].resize(samples.size());
  Time last = 0;
  for (const MemorySample& sample : samples) {
    chunk.columns[offset].push_back(
        wrapping_difference(sample.time, std::exchange(last, sample.time)));
  }
  set_changes(samples, chunk.columns);
  set_counters(samples, chunk.columns);
  return chunk;
}

void SampleEncoder::count_from_first(Chunk& chunk) {
  chunk.first_allocated = std::exchange(chunk.columns[allocated].front(), 0);
  chunk.first_reserved = std::exchange(chunk.columns[reserved].front(), 0);
}

SampleEncoder::Model SampleEncoder::model_for(const Chunk& chunk) const {
  Model best;
  int most = 0;
  for (const Model& model : models_) {
    // Only chunks in the order of edges have room for the number of another.
    if (model->ordered != chunk.ordered || (!chunk.ordered && model->seq != chunk.seq)) continue;
    const int same = std::popcount(shared_columns(model->columns, chunk.columns));
    if (same <= most) continue;
    best = model;
    most = same;
  }
  return best;
}

SampleEncoder::Chunk SampleEncoder::arrange(std::span<const MemorySample> samples,
                                            const ChunkHeader& header, Model& model) {
  for (const Step& step : steps_) {
    if (step.seq != header.seq || step.model->samples.size() != samples.size()) continue;
    std::optional<Chunk> found = like(step, samples, header);
    if (!found) continue;
    model = step.model;
    return std::move(*found);
  }
  Chunk chunk = alone(samples, header);
  for (const Model& earlier : models_) {
    if (!chunk.ordered || !earlier->ordered || earlier->samples.size() != samples.size()) continue;
    const Step step{header.seq, earlier, chunk.first_edge - earlier->first_edge};
    std::optional<Chunk> found = like(step, samples, header);
    if (!found) continue;
    model = earlier;
    return std::move(*found);
  }
  model = model_for(chunk);
  return chunk;
}

void SampleEncoder::remember(Chunk chunk, const Model& model) {
  const bool known = std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) {
    return step.seq == chunk.seq && step.model == model;
  });
  if (known) return;
  Model own = model;
  Edge shift = 0;
  if (model != nullptr) {
    shift = chunk.first_edge - model->first_edge;
  } else {
    own = std::make_shared<const Chunk>(std::move(chunk));
    models_.push_back(own);
    if (models_.size() > models_max) models_.pop_front();
  }
  if (!own->ordered) return;
  steps_.push_back({model != nullptr ? chunk.seq : own->seq, own, shift});
  if (steps_.size() > models_max) steps_.pop_front();
}

void SampleEncoder::encode(std::span<const MemorySample> samples, bool complete,
                           ChunkHeader& header, std::vector<std::uint8_t>& data) {
  header.count = static_cast<std::int64_t>(samples.size());
  std::tie(header.t0, header.t1) = times_between(samples);
  Model model;
  Chunk chunk = complete ? arrange(samples, header, model) : plain(samples, header);
  std::uint32_t shared = chunk.as_model;
  if (model != nullptr) shared |= shared_columns(model->columns, chunk.columns);
  data.clear();
  append_column(std::array{std::int64_t{model != nullptr ? model->rank : header.rank},
                           shared + (chunk.ordered ? ordered_bit : 0)},
                data);
  if (chunk.ordered) {
    append_column(std::array{model != nullptr ? header.seq - model->seq : 0, chunk.first_edge,
                             chunk.first_allocated, chunk.first_reserved},
                  data);
  }
  for (std::size_t c = 0; c < sample_columns; ++c) {
    if ((shared >> c & 1) == 0) append_column(chunk.columns[c], data);
  }
  if (complete) remember(std::move(chunk), model);
}

namespace {

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

}  // namespace tessera::storage
