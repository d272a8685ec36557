// SPDX-License-Identifier: Apache-2.0
#include "exchange/import/op_rows.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

namespace tessera::exchange {

std::size_t OpRows::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = 0x9E3779B97F4A7C15ULL;
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0xBF58476D1CE4E5B9ULL;
    hash ^= hash >> 29;
  };
  mix(key.stream);
  mix(key.communicator);
  mix(key.name);
  mix(key.unit);
  mix(key.module);
  mix(static_cast<std::int64_t>(key.kind) | static_cast<std::int64_t>(key.phase) << 8 |
      static_cast<std::int64_t>(key.reason) << 16);
  mix(key.nth);
  return static_cast<std::size_t>(hash);
}

OpRows::OpRows(const ImportedRun& run, const CollectiveMatches& matches, const StepTable& steps,
               TraceSink& sink)
    : run_(run), matches_(matches), steps_(steps), sink_(sink) {
  collectives_.resize(run.ranks().size());
  next_.resize(run.ranks().size());
  for (const ImportedRank& rank : run.ranks()) {
    auto& order = order_.emplace_back(rank.spans.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const ImportedSpan &x = rank.spans[a], &y = rank.spans[b];
      return std::tuple(x.step, x.begin, a) < std::tuple(y.step, y.begin, b);
    });
  }
}

void OpRows::declare() {
  // Streams that compute first, then those that communicate: the order in which they are shown.
  constexpr std::array roles = {StreamRole::compute, StreamRole::communication, StreamRole::copy,
                                StreamRole::host};
  for (const StreamRole role : roles) {
    for (const ImportedRank& rank : run_.ranks()) {
      std::set<std::int32_t> used;
      for (const ImportedSpan& span : rank.spans) used.insert(span.lane);
      for (const std::int32_t lane : used) {
        const ImportedLane& from = rank.lanes[static_cast<std::size_t>(lane)];
        const auto next = static_cast<std::int32_t>(streams_.size());
        if (from.role != role || !streams_.try_emplace(from.name, next).second) continue;
        sink_.stream({next, run_.text(from.name), role});
      }
    }
  }
  std::vector<CommunicatorRecord<std::string>> rows;
  for (const ImportedGroup& group : run_.groups()) {
    const std::string& name = group.description.empty() ? group.name : group.description;
    const auto next = static_cast<std::int32_t>(communicators_.size());
    const auto [found, added] = communicators_.try_emplace({name, group.size}, next);
    if (added) rows.push_back({next, name, std::max(group.size, 1), 0});
    ++rows[static_cast<std::size_t>(found->second)].group_count;
    communicator_of_group_.push_back(found->second);
  }
  for (const auto& row : rows) {
    sink_.communicator({row.id, row.name, row.group_size, row.group_count});
  }
}

std::int32_t OpRows::stream_of(const ImportedRank& rank, std::int32_t lane) const {
  return streams_.at(rank.lanes[static_cast<std::size_t>(lane)].name);
}

std::int32_t OpRows::communicator_of(std::int32_t group) const {
  return group < 0 ? -1 : communicator_of_group_[static_cast<std::size_t>(group)];
}

void OpRows::find_ready() {
  instances_.resize(matches_.matched.size());
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    const std::int32_t group = matches_.matched[i].group;
    instances_[i].ready = std::numeric_limits<Time>::min();
    if (group >= 0) instances_[i].size = run_.groups()[static_cast<std::size_t>(group)].size;
  }
  for (std::size_t r = 0; r < run_.ranks().size(); ++r) {
    for (const ImportedSpan& span : run_.ranks()[r].spans) {
      if (span.collective < 0) continue;
      const std::int32_t matched = matches_.of[r][static_cast<std::size_t>(span.collective)];
      if (matched < 0) continue;
      Instance& instance = instances_[static_cast<std::size_t>(matched)];
      instance.ready = std::max(instance.ready, span.begin);
      ++instance.seen;
    }
  }
}

OpRows::Key OpRows::key_of(const ImportedRank& rank, const ImportedSpan& span) const {
  Key key;
  key.stream = stream_of(rank, span.lane);
  if (span.collective >= 0) {
    key.communicator =
        communicator_of(rank.collectives[static_cast<std::size_t>(span.collective)].group);
  }
  key.name = span.name;
  key.unit = span.unit;
  key.module = span.module;
  key.kind = span.kind;
  key.phase = span.phase;
  key.reason = span.reason;
  return key;
}

std::int32_t OpRows::new_op(const ImportedRank& rank, const ImportedSpan& span, const Key& key) {
  TraceOp op;
  op.id = ops_++;
  op.kind = span.kind;
  op.stream = key.stream;
  op.communicator = key.communicator;
  op.step = steps_.step_of(span.step);
  op.phase = span.phase;
  op.reason = span.reason;
  op.unit = run_.text(span.unit);
  op.module = run_.text(span.module);
  op.label = run_.text(span.name);
  op.bytes = span.bytes;
  if (span.collective >= 0) {
    const auto& collective = rank.collectives[static_cast<std::size_t>(span.collective)];
    op.bytes = collective.bytes;
    op.dtype = collective.dtype;
    op.algorithm = run_.text(collective.algorithm);
  }
  sink_.op(op);
  const auto unit = static_cast<std::size_t>(span.unit);
  if (unit_known_.size() <= unit) unit_known_.resize(unit + 1);
  if (span.unit != 0 && !unit_known_[unit]) units_.push_back(span.unit);
  unit_known_[unit] = true;
  return op.id;
}

// Of a matched collective the place among its group's says which op it is, so that groups of one
// axis share ops as their ranks do; a stream of another name is an op of its own.
std::int32_t OpRows::op_of(std::size_t rank, const ImportedSpan& span) {
  const ImportedRank& imported = run_.ranks()[rank];
  Key key = key_of(imported, span);
  std::int32_t matched = -1;
  Key count = key;
  count.nth = static_cast<std::int32_t>(rank);
  if (span.collective >= 0) {
    const auto index = static_cast<std::size_t>(span.collective);
    matched = matches_.of[rank][index];
    const auto known = op_of_matched_.find({matched, key.stream});
    if (known != op_of_matched_.end()) return known->second;
    count.nth = imported.collectives[index].group;
  }
  key.nth = counts_[count]++;
  const auto [found, added] = ids_.try_emplace(key, -1);
  if (added) found->second = new_op(imported, span, key);
  if (matched >= 0) op_of_matched_[{matched, key.stream}] = found->second;
  return found->second;
}

void OpRows::write_span(std::size_t rank, const ImportedSpan& span, std::int32_t op) {
  Time ready = span.begin;
  if (span.collective >= 0) {
    const std::int32_t matched = matches_.of[rank][static_cast<std::size_t>(span.collective)];
    const Instance& instance = instances_[static_cast<std::size_t>(matched)];
    const bool all = instance.size > 1 && instance.seen >= instance.size;
    if (all && ends_together(span.kind)) ready = std::clamp(instance.ready, span.begin, span.end);
    if (!all && instance.size != 1) ++without_wait_;
    collectives_[rank].push_back({span.begin, ready, span.end, span.step});
  }
  const Rank number = run_.ranks()[rank].rank;
  sink_.spans({op, {&number, 1}, {&span.begin, 1}, {&ready, 1}, {&span.end, 1}});
  ++spans_;
}

// All operations of a part first: their ids ascend, and lanes are then written in their own order.
void OpRows::write_part(std::int32_t part) {
  ids_.clear();
  counts_.clear();
  op_of_matched_.clear();
  struct Written {
    std::size_t rank, span;
    std::int32_t op;
  };
  std::vector<Written> spans;
  const auto& ranks = run_.ranks();
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::size_t begin = next_[r];
    while (next_[r] < order_[r].size() && ranks[r].spans[order_[r][next_[r]]].step == part) {
      ++next_[r];
    }
    for (std::size_t i = begin; i < next_[r]; ++i) {
      spans.push_back({r, order_[r][i], op_of(r, ranks[r].spans[order_[r][i]])});
    }
  }
  for (const Written& w : spans) write_span(w.rank, ranks[w.rank].spans[w.span], w.op);
}

void OpRows::write() {
  find_ready();
  for (std::int32_t part = 0; part < steps_.parts(); ++part) write_part(part);
}

}  // namespace tessera::exchange
