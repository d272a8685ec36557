// SPDX-License-Identifier: Apache-2.0
#include "storage/span_chunk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "storage/column_kernels.h"
#include "tessera/assert.h"

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

/// Where a span begins that waits for nothing in the chunk.
Time first_begin(std::size_t i, std::span<const Time> begin, const SpanColumns* model) {
  if (model != nullptr) return model->begin[i];
  return i > 0 ? begin[i - 1] : 0;
}

void fill(ChunkHeader& header, const SpanRun& spans) {
  header.count = static_cast<std::int64_t>(spans.size());
  header.t0 = least_of(spans.begin());
  header.t1 = most_of(spans.end());
}

}  // namespace

const SpanEncoder::Chunk* SpanEncoder::same_operations(std::int64_t seq,
                                                       std::span<const std::int32_t> ops) const {
  for (const Chunk& chunk : chunks_) {
    if (chunk.seq != seq || chunk.spans.plan->size() != ops.size()) continue;
    if (equal_shifted(ops, chunk.spans.plan->ops(), chunk.spans.op_shift)) return &chunk;
  }
  return nullptr;
}

const SpanEncoder::Chunk* SpanEncoder::same_plan(const SpanPlan& plan) const {
  for (const Chunk& chunk : plans_) {
    if (chunk.spans.plan->same_shape(plan)) return &chunk;
  }
  return nullptr;
}

std::int64_t SpanEncoder::append_times(const SpanRun& spans, const SpanPlan& plan,
                                       const SpanColumns* model) {
  const std::size_t n = spans.size();
  TESSERA_ASSERT(plan.size() == n && (model == nullptr || model->begin.size() == n),
                 "what a chunk builds on has as many spans");
  const std::span<const Time> begin = spans.begin(), ready = spans.ready(), end = spans.end();
  column_.resize(n);
  other_.resize(n);
  rest_.clear();
  std::int64_t flags = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const Time otherwise = first_begin(i, begin, model);
    column_[i] = wrapping_difference(begin[i], plan.begin_of(i, end, otherwise));
  }
  append_column(column_, rest_);
  // Where ranks meet, from the model's time perhaps.
  subtract(ready, begin, column_);
  if (model == nullptr) {
    append_column(column_, rest_);
  } else {
    subtract_either(ready, plan.meeting(), model->ready, begin, other_);
    if (append_shorter(column_, other_, rest_)) flags |= ready_of_model;
  }
  // What it took longer than on other ranks.
  subtract(end, ready, column_);
  subtract(column_, plan.nominals(), column_);
  for (std::size_t k = 0; k < n; ++k) other_[k] = column_[plan.by_nominal()[k]];
  if (append_shorter(column_, other_, rest_)) flags |= ordered_by_nominal;
  return flags;
}

void SpanEncoder::encode(const SpanRun& spans, bool complete, ChunkHeader& header,
                         std::vector<std::uint8_t>& data) {
  TESSERA_ASSERT(spans.size() >= 1 && spans.size() <= span_count_max,
                 "a chunk has entries, and places of 16 bits for them");
  fill(header, spans);
  const Chunk* const beside = complete ? same_operations(header.seq, spans.ops()) : nullptr;
  const SpanColumns* const model = beside != nullptr ? &beside->spans : nullptr;
  const Chunk* source = beside;
  SpanColumns columns;
  if (model != nullptr) {
    columns.plan = model->plan;
  } else {
    columns.plan = plan_of(spans.ops());
    if (complete) source = same_plan(*columns.plan);
    if (source != nullptr) {
      columns.plan = source->spans.plan;
      columns.op_shift = spans.ops().front() - columns.plan->ops().front();
    }
  }

  // What the flags say is known behind the columns that they are about.
  std::int64_t flags = append_times(spans, *columns.plan, model);
  data.clear();
  const bool shares = source != nullptr;
  if (shares) flags |= shares_plan;
  const std::int64_t back = shares ? header.seq - source->seq : 0;
  // Of a chunk beside this one the plan is taken as it is, and columns.op_shift is 0.
  append_column(std::array{std::int64_t{shares ? source->rank : header.rank}, flags, back,
                           std::int64_t{columns.op_shift}},
                data);
  if (!shares) columns.plan->append_to(data);
  data.insert(data.end(), rest_.begin(), rest_.end());
  if (!complete || model != nullptr) return;
  const std::span<const Time> begin = spans.begin(), ready = spans.ready(), end = spans.end();
  columns.begin.assign(begin.begin(), begin.end());
  columns.ready.assign(ready.begin(), ready.end());
  columns.end.assign(end.begin(), end.end());
  remember({header.rank, header.seq, std::move(columns)}, !shares);
}

std::shared_ptr<const SpanPlan> SpanEncoder::plan_of(std::span<const std::int32_t> ops) {
  if (last_plan_ == nullptr ||
      !std::equal(ops.begin(), ops.end(), last_plan_->ops().begin(), last_plan_->ops().end())) {
    last_plan_ = std::make_shared<SpanPlan>(ops, ops_);
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
  if (!std::in_range<std::int32_t>(shift) || least + shift < 0 ||
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
