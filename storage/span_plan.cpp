// SPDX-License-Identifier: Apache-2.0
#include "storage/span_plan.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "tessera/assert.h"

namespace tessera::storage {
namespace {

// Of what an operation waits for besides its stream; more would hardly ever be the last to end.
constexpr std::int64_t waits_max = 16;

}  // namespace

SpanPlan::SpanPlan(std::span<const std::int32_t> spans, const KnownOps& ops) {
  std::unordered_map<std::int32_t, std::size_t> places, groups;  // of ops, of communicators
  std::int32_t last = 0;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const KnownOp* const known = ops.find(spans[i]);
    TESSERA_ASSERT(known != nullptr, "spans of unknown operations were refused");
    const KnownOp& op = *known;
    op_steps_.push_back(std::int64_t{op.id} - std::exchange(last, op.id));
    stream_.push_back(op.stream);
    meets_.push_back(op.communicator >= 0 ? 1 : 0);
    nominal_.push_back(op.nominal);
    waits_.push_back(0);
    const auto wait_for = [&](std::size_t place) {
      if (waits_.back() == waits_max) return;
      ++waits_.back();
      distances_.push_back(static_cast<std::int64_t>(i - place));
    };
    for (const std::int32_t after : ops.after(op)) {
      if (const auto found = places.find(after); found != places.end()) wait_for(found->second);
    }
    places[op.id] = i;
    if (op.communicator < 0) continue;
    // Collectives of a group never overlap, whatever their streams.
    const auto [group, is_new] = groups.try_emplace(op.communicator, i);
    if (!is_new && stream_[group->second] != op.stream) wait_for(group->second);
    group->second = i;
  }
  static_cast<void>(derive());
}

void SpanPlan::append_to(std::vector<std::uint8_t>& data) const {
  for (const auto* column : {&op_steps_, &stream_, &meets_, &nominal_, &waits_}) {
    append_column(*column, data);
  }
  if (!distances_.empty()) append_column(distances_, data);
}

const char* SpanPlan::read(ColumnReader& reader, std::size_t count) {
  for (auto* column : {&op_steps_, &stream_, &meets_, &nominal_, &waits_}) {
    column->resize(count);
    if (!reader.read(*column)) return "its data ends early";
  }
  std::int64_t all = 0;
  for (const std::int64_t waits : waits_) {
    if (waits < 0 || waits > waits_max) return "a span waits for an impossible number of others";
    all += waits;
  }
  distances_.resize(static_cast<std::size_t>(all));
  if (all > 0 && !reader.read(distances_)) return "its data ends early";
  return derive();
}

bool SpanPlan::same_shape(const SpanPlan& other) const {
  TESSERA_ASSERT(!op_steps_.empty() && !other.op_steps_.empty(), "a plan is of spans");
  return std::equal(op_steps_.begin() + 1, op_steps_.end(), other.op_steps_.begin() + 1,
                    other.op_steps_.end()) &&
         stream_ == other.stream_ && meets_ == other.meets_ && waits_ == other.waits_ &&
         distances_ == other.distances_;
}

const char* SpanPlan::derive() {
  const std::size_t n = op_steps_.size();
  ops_.resize(n);
  first_.assign(1, 0);
  before_.clear();
  by_stream_.clear();
  std::unordered_map<std::int64_t, std::size_t> streams;  // by_stream_ of each
  std::int64_t op = 0;
  auto distance = distances_.begin();
  for (std::size_t i = 0; i < n; ++i) {
    op = wrapping_sum(op, op_steps_[i]);
    if (!std::in_range<std::int32_t>(op)) return "an operation's id is impossible";
    ops_[i] = static_cast<std::int32_t>(op);
    if (stream_[i] < 0 || !std::in_range<std::int32_t>(stream_[i])) return "a stream is impossible";
    const auto [stream, is_new] = streams.try_emplace(stream_[i], by_stream_.size());
    if (is_new) by_stream_.push_back({static_cast<std::int32_t>(stream_[i]), {}});
    std::vector<std::uint16_t>& places = by_stream_[stream->second].places;
    if (!is_new) before_.push_back(places.back());
    places.push_back(static_cast<std::uint16_t>(i));
    for (std::int64_t k = 0; k < waits_[i]; ++k, ++distance) {
      if (*distance < 1 || *distance > static_cast<std::int64_t>(i)) {
        return "a span waits for one that is not there";
      }
      before_.push_back(static_cast<std::uint16_t>(i - static_cast<std::size_t>(*distance)));
    }
    first_.push_back(static_cast<std::uint32_t>(before_.size()));
  }
  const auto [least, most] = std::minmax_element(ops_.begin(), ops_.end());
  op_range_ = {*least, *most};
  by_nominal_.resize(n);
  std::iota(by_nominal_.begin(), by_nominal_.end(), std::uint16_t{0});
  std::stable_sort(by_nominal_.begin(), by_nominal_.end(),
                   [this](std::size_t a, std::size_t b) { return nominal_[a] < nominal_[b]; });
  return nullptr;
}

}  // namespace tessera::storage
