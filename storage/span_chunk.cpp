// SPDX-License-Identifier: Apache-2.0
#include "storage/span_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tessera::storage {
namespace {

constexpr std::size_t plans_max = 8, chunks_max = 8;
constexpr int depth_max = 2;

/// The second number of a chunk.
enum Flag : std::int64_t { shares_plan = 1, ready_of_model = 2, ordered_by_nominal = 4 };
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

const SpanEncoder::Chunk* SpanEncoder::same_operations(std::int64_t seq,
                                                       std::span<const SpanEntry> spans) const {
  for (const Chunk& chunk : chunks_) {
    if (chunk.seq != seq || chunk.spans.plan->size() != spans.size()) continue;
    std::size_t same = 0;
    while (same < spans.size() && spans[same].op == chunk.spans.op(same)) ++same;
    if (same == spans.size()) return &chunk;
  }
  return nullptr;
}

const SpanEncoder::Chunk* SpanEncoder::same_plan(const SpanPlan& plan) const {
  for (const Chunk& chunk : plans_) {
    if (chunk.spans.plan->same_shape(plan)) return &chunk;
  }
  return nullptr;
}

void SpanEncoder::encode(std::span<const SpanEntry> spans, bool complete, ChunkHeader& header,
                         std::vector<std::uint8_t>& data) {
  fill(header, spans);
  SpanColumns columns = columns_of(spans);
  const Chunk* const beside = complete ? same_operations(header.seq, spans) : nullptr;
  const SpanColumns* const model = beside != nullptr ? &beside->spans : nullptr;
  const Chunk* source = beside;
  if (model != nullptr) {
    columns.plan = model->plan;
    columns.op_shift = model->op_shift;
  } else {
    columns.plan = plan_of(spans);
    if (complete) source = same_plan(*columns.plan);
    if (source != nullptr) {
      columns.plan = source->spans.plan;
      columns.op_shift = spans.front().op - columns.plan->ops().front();
    }
  }

  // What the flags say is known behind the columns that they are about.
  std::vector<std::uint8_t> rest;
  append_column(gaps_of(columns, model), rest);
  std::int64_t flags = 0;
  if (source != nullptr) flags |= shares_plan;
  const std::vector<std::int64_t> alone = waits_of(columns, nullptr);
  if (append_shorter(alone, model != nullptr ? waits_of(columns, model) : alone, rest)) {
    flags |= ready_of_model;
  }
  const std::vector<std::int64_t> excess = excess_of(columns);
  std::vector<std::int64_t> ordered;
  for (const std::uint16_t place : columns.plan->by_nominal()) ordered.push_back(excess[place]);
  if (append_shorter(excess, ordered, rest)) flags |= ordered_by_nominal;

  data.clear();
  const bool shares = source != nullptr;
  const std::int64_t back = shares ? header.seq - source->seq : 0;
  // Of a chunk beside this one the plan is taken as it is.
  const std::int64_t shift = model == nullptr ? columns.op_shift : 0;
  append_column(std::array{std::int64_t{shares ? source->rank : header.rank}, flags, back, shift},
                data);
  if (!shares) columns.plan->append_to(data);
  data.insert(data.end(), rest.begin(), rest.end());
  if (complete && model == nullptr)
    remember({header.rank, header.seq, std::move(columns)}, !shares);
}

std::shared_ptr<const SpanPlan> SpanEncoder::plan_of(std::span<const SpanEntry> spans) {
  const auto same = [&](const SpanPlan& plan) {
    return std::equal(spans.begin(), spans.end(), plan.ops().begin(), plan.ops().end(),
                      [](const SpanEntry& span, std::int32_t op) { return span.op == op; });
  };
  if (last_plan_ == nullptr || !same(*last_plan_)) {
    last_plan_ = std::make_shared<SpanPlan>(spans, ops_);
  }
  return last_plan_;
}

void SpanEncoder::remember(Chunk chunk, bool has_plan) {
  if (has_plan) plans_.push_back(chunk);
  if (plans_.size() > plans_max) plans_.pop_front();
  chunks_.push_back(std::move(chunk));
  if (chunks_.size() > chunks_max) chunks_.pop_front();
}

namespace {

/// What a chunk says before its columns.
struct Start {
  Rank rank = 0;
  std::int64_t seq = 0;
  std::int32_t shift = 0;
  bool shares = false, together = false, ordered = false;
};

Result<Start> read_start(const ChunkHeader& header, int depth, ColumnReader& reader) {
  std::array<std::int64_t, 4> start{};
  if (!reader.read(start)) return damaged_spans(header, "its data ends early");
  const auto [rank, flags, back, shift] = start;
  Start found{.shares = (flags & shares_plan) != 0,
              .together = (flags & ready_of_model) != 0,
              .ordered = (flags & ordered_by_nominal) != 0};
  const bool possible = flags >= 0 && flags < flags_end && std::in_range<Rank>(rank) &&
                        std::in_range<std::int32_t>(shift) && back >= 0 && back <= header.seq;
  if (!possible || (found.shares && depth >= depth_max) ||
      (found.together && (!found.shares || back != 0))) {
    return damaged_spans(header, "it builds on what nobody has");
  }
  found.rank = static_cast<Rank>(rank);
  found.seq = header.seq - back;
  found.shift = static_cast<std::int32_t>(shift);
  return found;
}

/// Turns what is in the file into times.
void resolve(SpanColumns& spans, const std::vector<std::int64_t>& excess, const Start& start,
             const SpanColumns* beside) {
  for (std::size_t i = 0; i < excess.size(); ++i) {
    const Time begin = spans.plan->begin_of(i, spans.end, first_begin(i, spans.begin, beside));
    spans.begin[i] = wrapping_sum(spans.begin[i], begin);
    const bool meets = start.together && spans.plan->meets(i);
    spans.ready[i] = wrapping_sum(spans.ready[i], meets ? beside->ready[i] : spans.begin[i]);
    spans.end[i] = wrapping_sum(spans.ready[i], wrapping_sum(spans.plan->nominal(i), excess[i]));
  }
}

}  // namespace

Result<SpanColumns> decode_shared_spans(const ChunkHeader& header,
                                        std::span<const std::uint8_t> data, int depth,
                                        const SpanModel& model_of) {
  if (header.count < 1 || header.count > static_cast<std::int64_t>(span_count_max)) {
    return damaged_spans(header, fmt::format("it claims {} entries", header.count));
  }
  const auto n = static_cast<std::size_t>(header.count);
  ColumnReader reader(data);
  TESSERA_ASSIGN(const Start start, read_start(header, depth, reader));
  SpanColumns spans;
  std::shared_ptr<const SpanColumns> model;
  if (start.shares) {
    TESSERA_ASSIGN(model, model_of(start.rank, start.seq, header, depth + 1));
    if (model == nullptr || model->plan->size() != n) {
      return damaged_spans(header, fmt::format("rank {} has no such chunk", start.rank));
    }
    spans.plan = model->plan;
    spans.op_shift = model->op_shift;
  } else {
    auto plan = std::make_shared<SpanPlan>();
    if (const char* what = plan->read(reader, n)) return damaged_spans(header, what);
    spans.plan = std::move(plan);
  }
  const std::int64_t shift = std::int64_t{spans.op_shift} + start.shift;
  const auto [least, most] = spans.plan->op_range();
  if (!std::in_range<std::int32_t>(shift) || !std::in_range<std::int32_t>(least + shift) ||
      !std::in_range<std::int32_t>(most + shift)) {
    return damaged_spans(header, "an operation's id is impossible");
  }
  spans.op_shift = static_cast<std::int32_t>(shift);
  std::vector<std::int64_t> excess(n);
  for (auto* column : {&spans.begin, &spans.ready, &spans.end}) column->resize(n);
  if (!reader.read(spans.begin) || !reader.read(spans.ready) || !reader.read(excess)) {
    return damaged_spans(header, "its data ends early");
  }
  if (!reader.at_end()) return damaged_spans(header, "its data is too long");
  if (start.ordered) {
    spans.end.swap(excess);  // the ends are found below
    for (std::size_t k = 0; k < n; ++k) excess[spans.plan->by_nominal()[k]] = spans.end[k];
  }
  const bool beside = model != nullptr && start.seq == header.seq;
  resolve(spans, excess, start, beside ? model.get() : nullptr);
  return spans;
}

}  // namespace tessera::storage
