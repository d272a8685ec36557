// SPDX-License-Identifier: Apache-2.0
#include "sim/lockstep/lockstep_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/runtime/op_checks.h"
#include "sim/ranks/rank_speeds.h"
#include "tessera/sim/group_shape.h"

namespace tessera::sim {

LockstepBackend::LockstepBackend(const LockstepOptions& options)
    : LockstepRuntime(RankSet::all(options.world_size), RankSet::all(options.world_size)),
      options_(options),
      pool_(static_cast<std::size_t>(options.world_size)),
      slowness_(
          rank_slowness(options.spread, options.world_size, options.ranks_per_node, options.seed)),
      host_(options.host, pool_),
      contention_(options.contention),
      accounts_(static_cast<std::size_t>(options.world_size)),
      memory_(options.recorded_ranks),
      numbers_(SwapStore(options.aio, options.swap_io)) {
  using Allocator = StackProfile::Allocator;
  const bool expandable = options.allocator == Allocator::expandable;
  if (expandable || options.allocator == Allocator::pytorch) {
    cached_.emplace(RankSet::all(options.world_size),
                    CachingOptions{options.memory_per_rank, expandable});
  }
  if (options.allocator != Allocator::events) leave_out_places();
  const auto low = static_cast<std::uint32_t>(options.seed);
  const auto high = static_cast<std::uint32_t>(options.seed >> 32);
  seed_key_ = hash32(low ^ hash32(high ^ 0x9E3779B9U));
  rank_keys_.resize(static_cast<std::size_t>(options.world_size));
  for (std::size_t r = 0; r < rank_keys_.size(); ++r) {
    rank_keys_[r] = hash32(static_cast<std::uint32_t>(r) ^ seed_key_);
  }
}

Status LockstepBackend::communicator_created(CommunicatorId id, const Communicator& communicator) {
  const RankGroups& groups = communicator.groups;
  if (keeps_calls_) calls_.spoil();
  CommunicatorState state;
  state.shapes = shapes_of(groups, options_.ranks_per_node);
  state.slowness = group_slowness(options_.slow_links, groups, options_.ranks_per_node);
  state.shapes.resize(std::max(state.shapes.size(), state.slowness.size()), state.shapes.front());
  state.slowness.resize(state.shapes.size(), 1);
  communicators_.push_back(std::move(state));
  if (options_.sink != nullptr) {
    options_.sink->communicator(
        {id.value, communicator.name, groups.group_size_max(), groups.group_count()});
  }
  return {};
}

const LockstepBackend::EventTime* LockstepBackend::find(EventId event) const {
  if (event.value < first_event_) return nullptr;  // over for every stream
  return &events_[static_cast<std::size_t>(event.value - first_event_)];
}

void LockstepBackend::forget_events(EventId live) {
  while (first_event_ < live.value && !events_.empty()) {
    events_.pop_front();
    ++first_event_;
  }
  if (options_.sink != nullptr) waited_.forget_before(live);
}

LockstepBackend::EventTime LockstepBackend::reached(StreamId id) const {
  const StreamState& at = streams_[id.index()];
  EventTime time{at.clock, at.pending, stream(id).role == StreamRole::communication, id};
  if (at.collectives) time.also.push_back({at.collectives, true});
  return time;
}

// A stream that hands on what it waited for, or copies it, says what of that was collectives.
void LockstepBackend::wait_for(StreamState& waiting, const EventTime& event) {
  auto add = [&](const Clock& clock, bool communication) {
    // Streams that never run anything wait for the same clocks again and again.
    for (Pending& known : waiting.pending) {
      if (known.clock != clock) continue;
      known.communication |= communication;
      return;
    }
    waiting.pending.push_back({clock, communication});
  };
  if (event.clock != waiting.clock) add(event.clock, event.communication);
  for (const Pending& pending : event.also) add(pending.clock, pending.communication);
}

Clock LockstepBackend::join(const Clock& a, const Clock& b) {
  if (a->lowest >= b->highest) return a;
  if (b->lowest >= a->highest) return b;
  auto out = pool_.take();
  clock_max(out->data(), a->data(), b->data(), ranks());
  out->lowest = std::max(a->lowest, b->lowest);
  out->highest = std::max(a->highest, b->highest);
  return out;
}

Clock LockstepBackend::resolve(StreamId id) {
  StreamState& stream = state(id);
  if (stream.pending.empty()) return stream.clock;
  Clock start = stream.clock;
  Clock collectives = stream.collectives;
  for (const Pending& pending : stream.pending) {
    start = join(start, pending.clock);
    if (!pending.communication) continue;
    collectives = collectives ? join(collectives, pending.clock) : pending.clock;
  }
  if (this->stream(id).role == StreamRole::compute) {
    // The host, or a copy, caused what comes behind the last collective.
    const Clock until = collectives ? join(stream.clock, collectives) : stream.clock;
    if (until != stream.clock) accounts_.gap(stream.clock, until, true);
    if (start != until) accounts_.gap(until, start, false);
  } else {
    stream.collectives = collectives;
  }
  stream.clock = start;
  stream.pending.clear();
  return start;
}

void LockstepBackend::collect_waits(const Op& op) {
  StreamState& waiting = state(op.stream);
  for (EventId event : op.after) {
    if (const EventTime* time = find(event)) wait_for(waiting, *time);
  }
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait == nullptr || !wait->stream.valid() || wait->stream == op.stream) return;
  static_cast<void>(resolve(wait->stream));
  wait_for(waiting, reached(wait->stream));
}

Jitter LockstepBackend::jitter_of(EventId event, Time duration) const {
  const Time amplitude = std::llround(options_.jitter * static_cast<double>(duration));
  Jitter jitter{.base = duration - amplitude};
  while ((2 * amplitude >> jitter.shift) > 0xFFFFFFFFLL) ++jitter.shift;
  jitter.width = static_cast<std::uint32_t>(2 * amplitude >> jitter.shift);
  jitter.op_key = hash32(static_cast<std::uint32_t>(event.value) ^ seed_key_);
  return jitter;
}

Clock LockstepBackend::run_for(const Op& op, EventId event, const Clock& start, Time duration) {
  if (duration == 0) return start;
  const ClockStep step{jitter_of(event, duration), rank_keys_.data()};
  const bool everyone = op.where == world();
  if (everyone && slowness_.empty() && options_.slow_ranks.empty()) {
    return pool_.after(start, step);
  }
  auto end = pool_.take();
  end->times() = start->times();
  for (const RankRange& range : op.where.ranges()) {
    const ClockStep own{step.jitter, rank_keys_.data() + range.begin};
    clock_add_steps(end->data() + range.begin, std::span(&own, 1), range.end - range.begin);
  }
  end->lowest = start->lowest + (everyone ? step.jitter.base : 0);
  end->highest = start->highest + longest(step.jitter);
  if (!slowness_.empty()) {
    clock_stretch(end->data(), start->data(), slowness_.data(), ranks());
    const ClockBounds bounds = clock_bounds(end->data(), ranks());
    end->lowest = bounds.lowest;
    end->highest = bounds.highest;
  }
  for (const SlowRank& slow : options_.slow_ranks) {
    if (!op.where.contains(slow.rank)) continue;
    const auto r = static_cast<std::size_t>(slow.rank);
    const auto taken = static_cast<double>((*end)[r] - (*start)[r]);
    end->times()[r] += std::llround(taken * (slow.factor - 1));
    end->lowest = std::min(end->lowest, end->times()[r]);
    end->highest = std::max(end->highest, end->times()[r]);
  }
  return end;
}

void LockstepBackend::occupy_thread(const Clock& end) {
  if (!options_.one_thread) return;
  auto free = pool_.take();
  clock_add(free->data(), end->data(), options_.between_ns, ranks());
  free->lowest = end->lowest + options_.between_ns;
  free->highest = end->highest + options_.between_ns;
  thread_ = free;
}

LockstepBackend::Timing LockstepBackend::run_kernel(const Op& op, EventId event, Time duration) {
  Timing timing{.begin = resolve(op.stream)};
  timing.end = run_for(op, event, timing.begin, duration);
  // Copy engines and the host's processors are not in the way of communication.
  const auto* const compute = std::get_if<Compute>(&op.what);
  const bool beside = compute != nullptr && !compute->cost.on_host && duration > 0;
  if (beside && !contention_.none()) {
    timing.end = contention_.stretched(timing.begin, timing.end, pool_);
  }
  return timing;
}

// One group of everybody: it meets when the last has arrived and leaves together.
Clock LockstepBackend::meet_all(const Clock& arrival, Time cost) {
  const Time ready = arrival->lowest == arrival->highest ? arrival->highest
                                                         : clock_highest(arrival->data(), ranks());
  accounts_.meet_all(arrival, ready, cost);
  return pool_.same(ready + cost);
}

Clock LockstepBackend::meet_in_groups(const Op& op, const Timing& timing) {
  const RankGroups& groups = communicator(communicator_of(op)).groups;
  const ClockData& arrival = *timing.begin;
  auto end = pool_.take();
  end->times() = arrival.times();
  end->lowest = arrival.lowest;
  end->highest = arrival.highest;
  for (Index g = 0; g < groups.group_count(); ++g) {
    if (!op.where.contains(groups.member(g, 0))) continue;
    const Index n = groups.group_size(g);
    const Time cost = timing.costs[timing.costs.size() == 1 ? 0 : static_cast<std::size_t>(g)];
    Time ready = std::numeric_limits<Time>::min();
    for (Index i = 0; i < n; ++i) {
      ready = std::max(ready, arrival[static_cast<std::size_t>(groups.member(g, i))]);
    }
    for (Index i = 0; i < n; ++i) {
      const Rank rank = groups.member(g, i);
      const auto r = static_cast<std::size_t>(rank);
      accounts_.meet(rank, ready - arrival[r], cost);
      end->times()[r] = ready + cost;
    }
    end->highest = std::max(end->highest, ready + cost);
  }
  return end;
}

LockstepBackend::Timing LockstepBackend::run_collective(const Op& op, const OpCosts& costs) {
  const CommunicatorId id = communicator_of(op);
  CommunicatorState& comm = state(id);
  const RankGroups& groups = communicator(id).groups;
  Timing timing{.begin = resolve(op.stream), .end = {}, .costs = costs.groups};
  if (comm.clock && comm.last_stream != op.stream) timing.begin = join(timing.begin, comm.clock);
  const bool one_group = groups.group_count() == 1 && groups.ranks() == world();
  timing.end = one_group ? meet_all(timing.begin, timing.costs[0]) : meet_in_groups(op, timing);
  comm.clock = timing.end;
  comm.last_stream = op.stream;
  accounts_.collective(op.stream.value, timing.begin, timing.end);
  contention_.add(timing.end, *std::min_element(timing.costs.begin(), timing.costs.end()));
  return timing;
}

Status LockstepBackend::do_numbers(const Op& op) {
  struct Visitor {
    NumericStore& numbers;
    const LockstepBackend& backend;
    const RankSet& where;
    Status& status;

    const RankGroups& groups(CommunicatorId id) const { return backend.communicator(id).groups; }
    void operator()(const AllGather& o) { numbers.all_gather(o, where, groups(o.communicator)); }
    void operator()(const ReduceScatter& o) {
      numbers.reduce_scatter(o, where, groups(o.communicator));
    }
    void operator()(const AllReduce& o) {
      numbers.all_reduce(o, -1, where, groups(o.communicator));
    }
    void operator()(const Reduce& o) {
      numbers.all_reduce({o.communicator, o.input, o.output, o.reduction}, o.root, where,
                         groups(o.communicator));
    }
    void operator()(const AllToAll& o) { numbers.all_to_all(o, where, groups(o.communicator)); }
    void operator()(const Broadcast& o) { numbers.broadcast(o, where, groups(o.communicator)); }
    const RankGroups* index_in(CommunicatorId id) const {
      return id.valid() ? &groups(id) : nullptr;
    }
    void operator()(const Copy& o) { status = numbers.copy(o, where, index_in(o.index_in)); }
    void operator()(const Compute& o) { status = numbers.compute(o, where, index_in(o.index_in)); }
    void operator()(const Wait&) {}
    void operator()(const Mark&) {}
  };
  Status status;
  std::visit(Visitor{numbers_, *this, op.where, status}, op.what);
  if (status.ok()) return {};
  return Status(status.code(), fmt::format("{}: {}", describe(op), status.message()));
}

void LockstepBackend::carry_out(const Op& op, EventId event, const OpCosts& costs, EventId live) {
  enter_step(op.cause.step);
  if (host_.waits_before(op)) {
    for (const StreamState& s : streams_) host_.wait(s.clock, pool_);
  }
  if (std::holds_alternative<Mark>(op.what)) host_.issue(op, pool_);
  collect_waits(op);
  if (options_.sink != nullptr) waited_.wait(op);
  StreamState& stream = state(op.stream);
  if (std::holds_alternative<Wait>(op.what) || std::holds_alternative<Mark>(op.what)) {
    events_.push_back(reached(op.stream));
    if (options_.sink != nullptr) waited_.record(op, event);
    return;
  }
  host_.issue(op, pool_);
  if (Clock host = host_.later_than(stream.clock, pool_)) {
    stream.pending.push_back({std::move(host), false});
  }
  if (thread_) stream.pending.push_back({thread_, false});
  trace_op(op, event);
  const Timing timing =
      communicator_of(op).valid() ? run_collective(op, costs) : run_kernel(op, event, costs.kernel);
  trace_spans(op, event, timing);
  stream.clock = timing.end;
  host_.under_way(op, timing.end);
  occupy_thread(timing.end);
  events_.push_back(reached(op.stream));
  if (options_.sink != nullptr) waited_.record(op, event);
  op_ranks_ += op.where.count();
  forget_events(live);
}

Status LockstepBackend::await_event(EventId event) {
  if (keeps_calls_ && find(event) != nullptr) calls_.add(AwaitCall{event});
  awaited(event);
  return {};
}

void LockstepBackend::awaited(EventId event) {
  const EventTime* time = find(event);
  if (time == nullptr) return;
  host_.wait(time->clock, pool_);
  for (const Pending& pending : time->also) host_.wait(pending.clock, pool_);
  // What the host submits from now on cannot start earlier.
  for (StreamState& stream : streams_) wait_for(stream, *time);
  if (options_.sink != nullptr) waited_.host_wait(event);
}

Result<PerRank<float>> LockstepBackend::read(const View& scalar) {
  if (!options_.numerics && !options_.reads) {
    return Status(Code::not_supported,
                  "this simulation keeps no numbers: create it with numerics = true");
  }
  TESSERA_TRY(check_scalar(scalar));
  if (keeps_calls_) calls_.add(ReadCall{});
  std::vector<float> values(static_cast<std::size_t>(options_.world_size),
                            options_.reads.value_or(0));
  for (Rank r = 0; r < options_.world_size && options_.numerics; ++r) {
    values[static_cast<std::size_t>(r)] = numbers_.value(scalar, r, 0);
  }
  number_read();
  return PerRank<float>(std::move(values));
}

// The host has what everything submitted so far has left.
void LockstepBackend::number_read() {
  for (std::size_t s = 0; s < streams_.size(); ++s) {
    host_.wait(resolve(StreamId{static_cast<std::int32_t>(s)}), pool_);
  }
}

PerRank<Time> LockstepBackend::now() const { return PerRank<Time>(host_.times()); }

Result<std::unique_ptr<LockstepRuntime>> LockstepRuntime::create(const LockstepOptions& options) {
  auto bad = [](std::string message) { return Status(Code::invalid_argument, std::move(message)); };
  if (options.world_size < 1 || options.ranks_per_node < 1) {
    return bad(fmt::format("{} ranks on nodes of {}: both must be at least 1", options.world_size,
                           options.ranks_per_node));
  }
  TESSERA_ASSERT(options.cost != nullptr, "a simulation needs a cost model");
  if (!(options.jitter >= 0 && options.jitter < 1)) {
    return bad(fmt::format("jitter {} must be at least 0 and below 1", options.jitter));
  }
  for (const SlowRank& slow : options.slow_ranks) {
    if (slow.rank < 0 || slow.rank >= options.world_size || !(slow.factor > 0)) {
      return bad(fmt::format("slow rank {} with factor {}: ranks are 0 to {}, factors positive",
                             slow.rank, slow.factor, options.world_size - 1));
    }
  }
  const Index nodes = (options.world_size + options.ranks_per_node - 1) / options.ranks_per_node;
  for (const SlowLink& slow : options.slow_links) {
    if (slow.node < 0 || slow.node >= nodes || !(slow.factor > 0)) {
      return bad(
          fmt::format("slow link of node {} with factor {}: nodes are 0 to {}, factors "
                      "positive",
                      slow.node, slow.factor, nodes - 1));
    }
  }
  if (!RankSet::all(options.world_size).covers(RankSet::of(options.recorded_ranks)) ||
      !std::is_sorted(options.recorded_ranks.begin(), options.recorded_ranks.end())) {
    return bad(
        fmt::format("recorded ranks must ascend and lie in 0 to {}", options.world_size - 1));
  }
  return std::unique_ptr<LockstepRuntime>(std::make_unique<LockstepBackend>(options));
}

}  // namespace tessera::sim
