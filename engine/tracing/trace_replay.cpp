// SPDX-License-Identifier: Apache-2.0
#include "engine/tracing/trace_replay.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tessera {
namespace {

std::vector<Rank> up_to(Rank ranks) {
  std::vector<Rank> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::size_t at(Rank rank) { return static_cast<std::size_t>(rank); }

Clock sealed(ClockPool::Shared<ClockData> clock) {
  const auto [lowest, highest] = std::minmax_element(clock->times().begin(), clock->times().end());
  clock->lowest = *lowest;
  clock->highest = *highest;
  return clock;
}

}  // namespace

TraceReplay::TraceReplay(Rank ranks)
    : ranks_(ranks),
      everyone_(RankSet::all(ranks)),
      pool_(at(ranks)),
      begins_(at(ranks)),
      ends_(at(ranks)),
      accounts_(at(ranks)),
      memory_(up_to(ranks)) {}

void TraceReplay::play(TraceItems items, const NextTimes& next_times, TraceSink& sink) {
  for (const TraceItem& item : items) {
    if (const auto* op = std::get_if<TimedOp>(&item)) {
      next_times(begins_, ends_);
      took(*op, sink);
    }
    if (const auto* changed = std::get_if<MemoryChange>(&item)) change(*changed);
    if (const auto* step = std::get_if<StepEnd>(&item)) close(*step, sink);
    if (const auto* stream = std::get_if<TracedStream>(&item)) add(*stream);
    if (const auto* groups = std::get_if<TracedGroups>(&item)) add(*groups);
  }
}

void TraceReplay::add(const TracedStream& added) {
  if (added.role == StreamRole::compute && !compute_.valid()) {
    compute_ = StreamId{static_cast<std::int32_t>(streams_.size())};
  }
  const bool waits = added.role != StreamRole::compute && added.role != StreamRole::communication;
  streams_.push_back({added.role, pool_.same(0), waits ? pool_.same(0) : nullptr});
}

const TraceReplay::Ended* TraceReplay::find(std::int32_t op) const {
  const auto place = std::int64_t{op} - first_ended_;
  if (place < 0 || place >= std::ssize(ended_)) return nullptr;
  const Ended& ended = ended_[static_cast<std::size_t>(place)];
  return ended.clock ? &ended : nullptr;
}

// Elsewhere the stream stays where it was.
Clock TraceReplay::where_it_holds(const TimedOp& op, std::span<const Time> times,
                                  const Clock& lowest) {
  auto clock = pool_.take();
  clock->times() = stream(op.stream).clock->times();
  op.where.for_each(
      [&](Rank r) { clock->times()[at(r)] = std::max(times[at(r)], (*lowest)[at(r)]); });
  return sealed(std::move(clock));
}

// The latest end of collectives that `ops` are, or waited for before they copied; `since` if that
// is later.
Clock TraceReplay::collectives_of(const WaitedOps::Ids& ops, const RankSet& where,
                                  const Clock& since) {
  auto until = pool_.take();
  until->times() = since->times();
  for (const Ended* waited : ended_of(ops)) {
    if (!waited->collectives) continue;
    where.for_each([&](Rank r) {
      until->times()[at(r)] = std::max(until->times()[at(r)], (*waited->collectives)[at(r)]);
    });
  }
  return sealed(std::move(until));
}

// The compute stream stands still between `begin` and `end`, first for collectives of `ops`; the
// host, or a copy, caused what comes behind them.
void TraceReplay::stand_still(const WaitedOps::Ids& ops, const RankSet& where, const Clock& begin,
                              const Clock& end) {
  auto until = pool_.take();
  until->times() = collectives_of(ops, where, begin)->times();
  for (std::size_t r = 0; r < until->times().size(); ++r) {
    until->times()[r] = std::min(until->times()[r], (*end)[r]);
  }
  const Clock blocked = sealed(std::move(until));
  account_gap(begin, blocked, true);
  account_gap(blocked, end, false);
}

void TraceReplay::account_gap(const Clock& begin, const Clock& end, bool blocking) {
  if (begin->times() != end->times()) accounts_.gap(begin, end, blocking);
}

// When the last member of each rank's group has come.
Clock TraceReplay::meet(const TimedOp& op, const Clock& begin, const Clock& end) {
  auto ready = pool_.take();
  ready->times() = begin->times();
  const RankGroups& groups = groups_.at(op.communicator);
  for (Index g = 0; g < groups.group_count(); ++g) {
    if (!op.where.contains(groups.member(g, 0))) continue;
    Time last = std::numeric_limits<Time>::min();
    for (Index i = 0; i < groups.group_size(g); ++i) {
      last = std::max(last, (*begin)[at(groups.member(g, i))]);
    }
    for (Index i = 0; i < groups.group_size(g); ++i) {
      const Rank r = groups.member(g, i);
      // A rank that only sends may be through before others come.
      const Time met = std::min(last, (*end)[at(r)]);
      ready->times()[at(r)] = met;
      accounts_.meet(r, met - (*begin)[at(r)], (*end)[at(r)] - met);
    }
  }
  accounts_.collective(op.stream.value, begin, end);
  return sealed(std::move(ready));
}

void TraceReplay::send_spans(const TimedOp& op, const Clock& begin, const Clock& ready,
                             const Clock& end, TraceSink& sink) {
  span_ranks_.clear();
  for (auto* times : {&span_begins_, &span_readies_, &span_ends_}) times->clear();
  op.where.for_each([&](Rank r) {
    span_ranks_.push_back(r);
    span_begins_.push_back((*begin)[at(r)]);
    span_readies_.push_back((*ready)[at(r)]);
    span_ends_.push_back((*end)[at(r)]);
  });
  sink.spans({op.id, span_ranks_, span_begins_, span_readies_, span_ends_});
}

void TraceReplay::took(const TimedOp& op, TraceSink& sink) {
  Stream& own = stream(op.stream);
  const Clock begin = where_it_holds(op, begins_, own.clock);
  const Clock end = where_it_holds(op, ends_, begin);
  if (own.role == StreamRole::compute) {
    stand_still(op.waits, op.where, own.clock, begin);
  } else if (own.role != StreamRole::communication) {
    own.collectives = collectives_of(op.waits, op.where, own.collectives);
  }
  send_spans(op, begin, is_collective(op.kind) ? meet(op, begin, end) : begin, end, sink);
  own.clock = end;
  own.used = true;
  last_ops_.reset();
  keep(op, {end, own.role == StreamRole::communication ? end : own.collectives});
}

// Ids ascend, and few of them are of waits and marks, so a table of all is as good as a search.
void TraceReplay::keep(const TimedOp& op, Ended ended) {
  if (ended_.empty()) first_ended_ = op.id;
  ended_.resize(static_cast<std::size_t>(op.id - first_ended_));
  ended_.push_back(std::move(ended));
  for (; !ended_.empty() && first_ended_ < op.first_live.value; ++first_ended_) ended_.pop_front();
}

Time TraceReplay::horizon(Rank rank) const {
  Time earliest = std::numeric_limits<Time>::max();
  for (const Stream& stream : streams_) {
    if (stream.used) earliest = std::min(earliest, (*stream.clock)[at(rank)]);
  }
  return earliest == std::numeric_limits<Time>::max() ? 0 : earliest;
}

const std::vector<const TraceReplay::Ended*>& TraceReplay::ended_of(const WaitedOps::Ids& ops) {
  if (ops && ops == last_ops_) return last_ended_;
  last_ops_ = ops;
  last_ended_.clear();
  for (std::size_t k = 0; ops && k < ops->size(); ++k) {
    if (const Ended* ended = find((*ops)[k])) last_ended_.push_back(ended);
  }
  return last_ended_;
}

void TraceReplay::change(const MemoryChange& change) {
  const std::vector<const Ended*>& waited = ended_of(change.ops);
  change.ranks.for_each([&](Rank r) {
    Time time = 0;
    if (change.stream.valid()) time = (*stream(change.stream).clock)[at(r)];
    if (!change.stream.valid() && waited.empty()) time = horizon(r);
    for (const Ended* ended : waited) time = std::max(time, (*ended->clock)[at(r)]);
    memory_.change(at(r), time, change.buffer, change.memory_class, change.delta,
                   change.address_end);
  });
}

// A step ends when its compute stream has come to what it waits for next.
void TraceReplay::end_compute(const WaitedOps::Ids& waits) {
  Stream& own = stream(compute_);
  auto end = pool_.take();
  end->times() = own.clock->times();
  for (const Ended* ended : ended_of(waits)) {
    for (std::size_t r = 0; r < end->times().size(); ++r) {
      end->times()[r] = std::max(end->times()[r], (*ended->clock)[r]);
    }
  }
  const Clock reached = sealed(std::move(end));
  stand_still(waits, everyone_, own.clock, reached);
  own.clock = reached;
}

void TraceReplay::close(const StepEnd& step, TraceSink& sink) {
  end_compute(step.ops);
  std::vector<Bytes> allocated(at(ranks_)), reserved(at(ranks_));
  for (const PeakMemory& peak : step.peaks) {
    std::fill(allocated.begin() + peak.first_rank, allocated.begin() + peak.end_rank,
              peak.allocated);
    std::fill(reserved.begin() + peak.first_rank, reserved.begin() + peak.end_rank, peak.reserved);
  }
  accounts_.close(step.step, stream(compute_).clock, allocated, reserved, &sink);
  for (const PeakMemory& peak : step.peaks) sink.peak_memory(peak);
  for (Rank r = 0; r < ranks_; ++r) memory_.flush(at(r), horizon(r), sink);
}

void TraceReplay::finish(TraceSink& sink) {
  for (Rank r = 0; r < ranks_; ++r) {
    memory_.flush(at(r), std::numeric_limits<Time>::max(), sink);
  }
}

}  // namespace tessera
