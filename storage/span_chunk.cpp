// SPDX-License-Identifier: Apache-2.0
#include "storage/span_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::storage {
namespace {

constexpr std::size_t span_models_max = 16;

/// The second number of a chunk.
enum Flag : std::int64_t { plan_of_model = 1, ready_of_model = 2, ordered_by_nominal = 4 };
constexpr std::int64_t flags_end = 8;

Status damaged_spans(const ChunkHeader& header, std::string_view what) {
  return {Code::corrupt, fmt::format("{} is damaged: {}.", header.describe(), what)};
}

SpanColumns columns_of(std::span<const SpanEntry> spans) {
  SpanColumns columns;
  for (const SpanEntry& span : spans) {
    columns.begin.push_back(span.begin);
    columns.ready.push_back(span.ready);
    columns.end.push_back(span.end);
  }
  return columns;
}

/// Where a span begins that waits for nothing in the chunk.
Time first_begin(std::size_t i, const std::vector<Time>& begin, const SpanColumns* model) {
  if (model != nullptr) return model->begin[i];
  return i > 0 ? begin[i - 1] : 0;
}

std::vector<std::int64_t> gaps_of(const SpanColumns& spans, const SpanColumns* model) {
  std::vector<std::int64_t> gaps;
  for (std::size_t i = 0; i < spans.begin.size(); ++i) {
    const Time otherwise = first_begin(i, spans.begin, model);
    gaps.push_back(
        wrapping_difference(spans.begin[i], spans.plan->begin_of(i, spans.end, otherwise)));
  }
  return gaps;
}

/// From the model's time, where there is a model and ranks meet, or else from the begin.
std::vector<std::int64_t> waits_of(const SpanColumns& spans, const SpanColumns* model) {
  std::vector<std::int64_t> waits;
  for (std::size_t i = 0; i < spans.begin.size(); ++i) {
    const bool together = model != nullptr && spans.plan->meets(i);
    waits.push_back(
        wrapping_difference(spans.ready[i], together ? model->ready[i] : spans.begin[i]));
  }
  return waits;
}

/// What it took longer than on other ranks.
std::vector<std::int64_t> excess_of(const SpanColumns& spans) {
  std::vector<std::int64_t> excess;
  for (std::size_t i = 0; i < spans.begin.size(); ++i) {
    const std::int64_t taken = wrapping_difference(spans.end[i], spans.ready[i]);
    excess.push_back(wrapping_difference(taken, spans.plan->nominal(i)));
  }
  return excess;
}

std::vector<std::uint8_t> packed(std::span<const std::int64_t> column) {
  std::vector<std::uint8_t> bytes;
  append_column(column, bytes);
  return bytes;
}

/// Of two spellings the shorter; true: the second.
bool append_shorter(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b,
                    std::vector<std::uint8_t>& data) {
  const std::vector<std::uint8_t> first = packed(a), second = packed(b);
  const bool shorter = second.size() < first.size();
  const std::vector<std::uint8_t>& chosen = shorter ? second : first;
  data.insert(data.end(), chosen.begin(), chosen.end());
  return shorter;
}

void fill(ChunkHeader& header, std::span<const SpanEntry> spans) {
  header.count = static_cast<std::int64_t>(spans.size());
  header.t0 = spans.front().begin;
  header.t1 = spans.front().end;
  for (const SpanEntry& span : spans) {
    header.t0 = std::min(header.t0, span.begin);
    header.t1 = std::max(header.t1, span.end);
  }
}

}  // namespace

const SpanEncoder::Model* SpanEncoder::model_for(std::int64_t seq,
                                                 const std::vector<std::int32_t>& ops) const {
  for (const Model& model : models_) {
    if (model.seq == seq && model.spans.plan->ops() == ops) return &model;
  }
  return nullptr;
}

void SpanEncoder::encode(std::span<const SpanEntry> spans, bool complete, ChunkHeader& header,
                         std::vector<std::uint8_t>& data) {
  fill(header, spans);
  std::vector<std::int32_t> ops;
  for (const SpanEntry& span : spans) ops.push_back(span.op);
  const Model* const found = complete ? model_for(header.seq, ops) : nullptr;
  const SpanColumns* const model = found != nullptr ? &found->spans : nullptr;
  SpanColumns columns = columns_of(spans);
  columns.plan = model != nullptr ? model->plan : std::make_shared<SpanPlan>(spans, ops_);

  // What the flags say is known behind the columns that they are about.
  std::vector<std::uint8_t> rest;
  append_column(gaps_of(columns, model), rest);
  std::int64_t flags = model != nullptr ? plan_of_model : 0;
  const std::vector<std::int64_t> alone = waits_of(columns, nullptr);
  if (append_shorter(alone, model != nullptr ? waits_of(columns, model) : alone, rest)) {
    flags |= ready_of_model;
  }
  const std::vector<std::int64_t> excess = excess_of(columns);
  std::vector<std::int64_t> ordered;
  for (const std::uint16_t place : columns.plan->by_nominal()) ordered.push_back(excess[place]);
  if (append_shorter(excess, ordered, rest)) flags |= ordered_by_nominal;

  data.clear();
  append_column(std::array{std::int64_t{found != nullptr ? found->rank : header.rank}, flags},
                data);
  if (model == nullptr) columns.plan->append_to(data);
  data.insert(data.end(), rest.begin(), rest.end());
  if (!complete || model != nullptr) return;
  models_.push_back({header.rank, header.seq, std::move(columns)});
  if (models_.size() > span_models_max) models_.pop_front();
}

Result<SpanColumns> decode_shared_spans(const ChunkHeader& header,
                                        std::span<const std::uint8_t> data, bool is_model,
                                        const SpanModel& model_of) {
  if (header.count < 1 || header.count > static_cast<std::int64_t>(chunk_count_max)) {
    return damaged_spans(header, fmt::format("it claims {} entries", header.count));
  }
  const auto n = static_cast<std::size_t>(header.count);
  ColumnReader reader(data);
  std::array<std::int64_t, 2> start{};
  if (!reader.read(start)) return damaged_spans(header, "its data ends early");
  const auto [rank, flags] = start;
  const bool shares = (flags & plan_of_model) != 0;
  if (flags < 0 || flags >= flags_end || !std::in_range<Rank>(rank) || (shares && is_model) ||
      (!shares && (flags & ready_of_model) != 0)) {
    return damaged_spans(header, "it builds on what nobody has");
  }
  SpanColumns spans;
  std::shared_ptr<const SpanColumns> model;
  if (shares) {
    TESSERA_ASSIGN(model, model_of(static_cast<Rank>(rank), header));
    if (model == nullptr || model->plan->size() != n) {
      return damaged_spans(header, fmt::format("rank {} has no such chunk", rank));
    }
    spans.plan = model->plan;
  } else {
    auto plan = std::make_shared<SpanPlan>();
    if (const char* what = plan->read(reader, n)) return damaged_spans(header, what);
    spans.plan = std::move(plan);
  }
  std::vector<std::int64_t> excess(n);
  spans.begin.resize(n);
  spans.ready.resize(n);
  spans.end.resize(n);
  if (!reader.read(spans.begin) || !reader.read(spans.ready) || !reader.read(excess)) {
    return damaged_spans(header, "its data ends early");
  }
  if (!reader.at_end()) return damaged_spans(header, "its data is too long");
  if ((flags & ordered_by_nominal) != 0) {
    // Not needed before the loop below has found them.
    spans.end.swap(excess);
    for (std::size_t k = 0; k < n; ++k) excess[spans.plan->by_nominal()[k]] = spans.end[k];
  }
  const bool together = (flags & ready_of_model) != 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Time begin = spans.plan->begin_of(i, spans.end, first_begin(i, spans.begin, model.get()));
    spans.begin[i] = wrapping_sum(spans.begin[i], begin);
    const bool meets = together && spans.plan->meets(i);
    spans.ready[i] = wrapping_sum(spans.ready[i], meets ? model->ready[i] : spans.begin[i]);
    spans.end[i] = wrapping_sum(spans.ready[i], wrapping_sum(spans.plan->nominal(i), excess[i]));
  }
  return spans;
}

}  // namespace tessera::storage
