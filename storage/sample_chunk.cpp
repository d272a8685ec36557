// SPDX-License-Identifier: Apache-2.0
#include "storage/sample_chunk.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>
#include <utility>

#include "storage/encoding.h"
#include "tessera/assert.h"

namespace tessera::storage {

using enum SampleColumn;

namespace {

constexpr std::size_t models_max = 16;
// Of samples that are elsewhere than where the model's are, more cost more than edges of one's own.
constexpr std::size_t strangers_max = 512, strangers_part = 8;

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
  for (const SampleColumn c : {buffer, memory_class, delta}) columns[c].resize(ordered.size());
  std::int32_t last = 0;
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    columns[buffer][i] = std::int64_t{ordered[i].buffer} - std::exchange(last, ordered[i].buffer);
    columns[memory_class][i] = static_cast<std::int64_t>(ordered[i].memory_class);
    columns[delta][i] = ordered[i].delta.value;
  }
}

/// The columns that are in the order of time.
void set_counters(std::span<const MemorySample> samples, SampleColumns& columns) {
  for (const SampleColumn c : {allocated, reserved}) columns[c].resize(samples.size());
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

/// A bit for each that both have.
std::uint32_t shared_columns(const SampleColumns& a, const SampleColumns& b) {
  std::uint32_t shared = 0;
  for (std::size_t c = 0; c < sample_columns; ++c) shared |= a[c] == b[c] ? 1U << c : 0U;
  return shared;
}

/// Those of the order that a chunk has from its model.
constexpr std::uint32_t columns_of_order =
    1U << edge | 1U << buffer | 1U << memory_class | 1U << delta;

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
  TESSERA_ASSERT(chunk.edges.size() == times.size(), "a sample lies at an edge");
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
  TESSERA_ASSERT(model.ordered && model.edges.size() == samples.size(),
                 "a model has an edge for every sample");
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
  TESSERA_ASSERT(!samples.empty() && samples.size() <= sample_count_max,
                 "a chunk has entries, and room for so many");
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

}  // namespace tessera::storage
