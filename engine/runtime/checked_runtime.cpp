// SPDX-License-Identifier: Apache-2.0
// The calls of a runtime: ids, places, accounts, and who hears of them.
#include "tessera/checked_runtime.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/runtime/checked_state.h"

namespace tessera {

CheckedRuntime::CheckedRuntime(RankSet world, RankSet local_ranks)
    : state_(std::make_unique<State>(std::move(world), std::move(local_ranks))) {
  TESSERA_ASSERT(!state_->local_ranks.empty() && state_->world.covers(state_->local_ranks),
                 "at least one rank of the world is local");
}

CheckedRuntime::~CheckedRuntime() = default;

Status CheckedRuntime::stream_created(StreamId, const Stream&) { return {}; }
Status CheckedRuntime::communicator_created(CommunicatorId, const Communicator&) { return {}; }
Status CheckedRuntime::buffer_requested(BufferId, const Allocation&) { return {}; }
Status CheckedRuntime::buffer_placed(BufferId, const Allocation&, const RankSet&,
                                     const Placement&) {
  return {};
}
void CheckedRuntime::buffer_released(BufferId, EventId, const RankSet&) {}
Status CheckedRuntime::await_event(EventId) { return {}; }

const RankSet& CheckedRuntime::world() const { return state_->world; }
const RankSet& CheckedRuntime::local_ranks() const { return state_->local_ranks; }
Bytes CheckedRuntime::peak_reserved() const { return state_->peak_reserved; }

const CheckedRuntime::Stream& CheckedRuntime::stream(StreamId id) const {
  return state_->streams[id.index()];
}
const CheckedRuntime::Communicator& CheckedRuntime::communicator(CommunicatorId id) const {
  return state_->communicators[id.index()];
}
const CheckedRuntime::Buffer& CheckedRuntime::buffer(BufferId id) const {
  return state_->buffers.at(id);
}

Status CheckedRuntime::check_scalar(const View& scalar) const {
  const Buffer* known = state_->buffers.find(scalar.buffer);
  const State::Live* live = state_->live.find(scalar.buffer);
  if (known == nullptr || live == nullptr || !live->holders.covers(local_ranks())) {
    return Status(Code::invalid_argument,
                  fmt::format("read: there is no buffer {}", scalar.buffer.value));
  }
  const bool inside =
      scalar.first >= Numel{0} && bytes_of(scalar.end, scalar.dtype) <= known->bytes;
  if (scalar.end_at(0) > scalar.begin_at(0) && inside) return {};
  return Status(Code::invalid_argument,
                fmt::format("read of {}: a view of {} elements up to {}, in {} bytes", known->name,
                            scalar.numel.value, scalar.end.value, known->bytes.value));
}

Index CheckedRuntime::index_in(CommunicatorId id, Rank rank) const {
  return id.valid() ? communicator(id).groups.index_of(rank) : 0;
}

Bytes CheckedRuntime::offset_of(BufferId id, Rank rank) const {
  if (!state_->places) return {};
  return state_->memories.of(rank).state.placement(state_->live.at(id)).offset;
}

std::vector<CheckedRuntime::MemoryPiece> CheckedRuntime::device_memory(Rank rank,
                                                                       StreamId stream) const {
  std::vector<MemoryPiece> pieces;
  if (!state_->places) return pieces;
  const State::OfRanks& memory = state_->memories.of(rank).state;
  std::map<State::PieceId, BufferId> buffers;
  state_->live.any_of([&](BufferId id, const State::Live& live) {
    const bool there = live.memory == Memory::device && live.holders.contains(rank);
    if (there) buffers[memory.pieces[live.place]] = id;
    return false;
  });
  memory.allocators[static_cast<std::size_t>(Memory::device)].for_each_piece(
      stream, [&](State::PieceId piece, Bytes offset, Bytes bytes, bool used, bool usable) {
        pieces.push_back({offset, bytes, used ? buffers[piece] : BufferId{}, !used && usable});
      });
  return pieces;
}

void CheckedRuntime::set_listener(CallListener& listener) {
  TESSERA_ASSERT(state_->streams.empty() && state_->communicators.empty(),
                 "a listener hears of all calls");
  state_->listener = &listener;
}

void CheckedRuntime::leave_out_places() {
  TESSERA_ASSERT(state_->buffers.none_yet(), "all buffers have places, or none has");
  state_->places = false;
}

// A step is over when the first call of a later one comes.
void CheckedRuntime::enter_step(std::int32_t step) {
  if (state_->listener == nullptr) return;
  for (; state_->step < step; ++state_->step) {
    state_->listener->step_ended(state_->step, take_peaks(state_->step));
  }
}

Result<StreamId> CheckedRuntime::create_stream(std::string_view name, StreamRole role) {
  const auto holders = [this](StreamId id) { return holders_of(id); };
  if (const auto again = state_->given_back(name, role, holders)) return *again;
  if (state_->streams.size() == stream_count_max) {
    if (const auto other = state_->shared(name, role, holders)) return *other;
    return Status(Code::invalid_argument,
                  fmt::format("stream '{}': a runtime has at most {} streams, and none of its "
                              "name is there to be shared: destroy engines that are not needed",
                              name, stream_count_max));
  }
  const StreamId id{static_cast<std::int32_t>(state_->streams.size())};
  const Stream& created = state_->streams.emplace_back(Stream{std::string(name), role});
  for (auto& c : state_->orders.all()) c.state.add_stream();
  if (state_->listener != nullptr) state_->listener->stream_created(id, created);
  TESSERA_TRY(stream_created(id, created));
  return id;
}

Result<CommunicatorId> CheckedRuntime::create_communicator(const RankGroups& groups,
                                                           std::string_view name) {
  if (!world().covers(groups.ranks())) {
    return Status(Code::invalid_argument,
                  fmt::format("communicator '{}' has ranks {}, but the run has {}", name,
                              groups.ranks().minus(world()).to_string(), world().to_string()));
  }
  const CommunicatorId id{static_cast<std::int32_t>(state_->communicators.size())};
  const Communicator& created =
      state_->communicators.emplace_back(Communicator{std::string(name), groups});
  if (state_->listener != nullptr) state_->listener->communicator_created(id, created);
  TESSERA_TRY(communicator_created(id, created));
  return id;
}

Result<BufferId> CheckedRuntime::allocate(const Allocation& request) {
  TESSERA_TRY(state_->check_request(request.where, request.stream,
                                    [&] { return fmt::format("buffer {}", request.name); }));
  if (request.bytes < Bytes{0}) {
    return Status(Code::invalid_argument,
                  fmt::format("buffer {}: {} bytes", request.name, request.bytes.value));
  }
  const auto [id, added] = state_->buffers.add();
  added.name.assign(request.name);
  added.bytes = request.bytes;
  added.memory = request.memory;
  added.memory_class = request.memory_class;
  enter_step(request.cause.step);
  if (state_->listener != nullptr) state_->listener->buffer_requested(id, request);
  TESSERA_TRY(buffer_requested(id, request));
  TESSERA_TRY(place(id, request));
  return id;
}

Status CheckedRuntime::place(BufferId id, const Allocation& request) {
  State::Live& live = state_->add_live(id, request);
  return state_->memories.for_each_in(
      request.where, [&](const RankSet& ranks, State::OfRanks& memory) -> Status {
        const Bytes offset = state_->places ? state_->place(live, request, ranks, memory) : Bytes{};
        if (!state_->places && request.memory == Memory::device) {
          memory.ledger.record(request.memory_class, request.bytes);
        }
        if (state_->listener != nullptr) {
          state_->listener->buffer_placed(id, request, ranks, offset);
        }
        const MemoryUse& now = memory.ledger.now();
        TESSERA_TRY(buffer_placed(id, request, ranks, {offset, now}));
        if (now.reserved > state_->peak_reserved && !ranks.intersect(local_ranks()).empty()) {
          state_->peak_reserved = now.reserved;
        }
        return {};
      });
}

Status CheckedRuntime::release(BufferId id, EventId after, const RankSet& where) {
  const Buffer* known = state_->buffers.find(id);
  if (known == nullptr) {
    return Status(Code::invalid_argument, fmt::format("release: there is no buffer {}", id.value));
  }
  const Buffer& record = *known;
  TESSERA_TRY(state_->check_request(where, StreamId{0},
                                    [&] { return fmt::format("release of {}", record.name); }));
  if (after.value >= state_->next_event) {
    return Status(Code::invalid_argument, fmt::format("release of {}: event {} was never recorded",
                                                      record.name, after.value));
  }
  if (after.valid() && state_->is_uncertain(after)) {
    TESSERA_ASSIGN(after, after_everything(StreamId{0}, where));
  }
  const State::Live* const live = state_->live.find(id);
  TESSERA_TRY(state_->check_release(record, live, after, where));
  const RankSet ran = after.valid() ? state_->ran(after, where) : RankSet{};
  if (ran != where && !ran.empty()) state_->memories.split(ran);
  const auto release_on = [&](const RankSet& ranks, State::OfRanks& memory) -> Status {
    if (state_->places) {
      const bool waits = ran.contains(ranks.first());
      state_->give_back(*live, record,
                        waits ? state_->order_of(ranks).position_of(after) : Position{}, memory);
    } else if (record.memory == Memory::device) {
      memory.ledger.record(record.memory_class, -record.bytes);
    }
    if (state_->listener != nullptr) state_->listener->buffer_released(id, record, after, ranks);
    buffer_released(id, after, ranks);
    return {};
  };
  TESSERA_TRY(state_->memories.for_each_in(where, release_on));
  state_->end_live(id, where);
  return {};
}

// Stands for events whose order has been forgotten: it is later than any of them.
Result<EventId> CheckedRuntime::after_everything(StreamId stream, const RankSet& where) {
  Op wait{.stream = stream, .where = where, .after = {}, .cause = {}, .what = Wait{}};
  wait.cause.reason = Reason::order;
  EventId last;
  for (std::size_t s = 0; s < state_->streams.size(); ++s) {
    wait.what = Wait{StreamId{static_cast<std::int32_t>(s)}};
    TESSERA_ASSIGN(last, submit(wait));
  }
  return last;
}

Result<EventId> CheckedRuntime::submit(const Op& op) {
  TESSERA_TRY(state_->check_submitted(op));
  if (std::any_of(op.after.begin(), op.after.end(),
                  [this](EventId e) { return state_->is_uncertain(e); })) {
    TESSERA_TRY(after_everything(op.stream, op.where).status());
  }
  const EventId event{state_->next_event};
  TESSERA_TRY(state_->order_op(op, event));
  ++state_->next_event;
  if (forgets_after(event)) state_->prune();
  enter_step(op.cause.step);
  if (state_->listener != nullptr) state_->listener->op_submitted(op, event, first_live_event());
  TESSERA_TRY(execute(op, event));
  return event;
}

Status CheckedRuntime::wait(EventId event) {
  if (!event.valid() || event.value >= state_->next_event) {
    return Status(Code::hazard, fmt::format("the host waits for event {}, which was never recorded",
                                            event.value));
  }
  state_->host_wait(event);
  if (state_->listener != nullptr) state_->listener->event_awaited(event);
  return await_event(event);
}

Status CheckedRuntime::wait() {
  if (state_->streams.empty()) return {};
  TESSERA_ASSIGN(const EventId last, after_everything(StreamId{0}, world()));
  TESSERA_TRY(wait(last));
  state_->quiet = last;
  return {};
}

Result<double> CheckedRuntime::mean(const std::function<float(Rank)>& value) {
  TESSERA_TRY(wait());
  if (state_->streams.empty()) {
    TESSERA_ASSIGN(const StreamId own, create_stream("default", StreamRole::compute));
    hold(own);  // and gives it back: the first engine's
  }
  const Cause why{.module = "program", .step = state_->step};
  TESSERA_ASSIGN(BufferId buffer, allocate({.bytes = Bytes{4},
                                            .stream = StreamId{0},
                                            .where = world(),
                                            .cause = why,
                                            .name = "program.mean"}));
  const View scalar = View::whole(buffer, DType::float32, Numel{1});
  Op op{.stream = StreamId{0}, .where = world(), .after = {}, .cause = why, .what = {}};
  Compute write{.writes = {scalar}};
  write.on_numbers = true;
  write.body = [&value](const BodyContext& context) {
    context.write_as<float>(0)[0] = value(context.rank());
  };
  op.what = std::move(write);
  TESSERA_ASSIGN(const EventId written, submit(op));
  TESSERA_ASSIGN(const PerRank<float> all, read(scalar));
  TESSERA_TRY(wait(written));
  TESSERA_TRY(release(buffer, written, world()));
  state_->quiet = written;
  double sum = 0;
  for (Rank rank = 0; rank < world().count(); ++rank) sum += static_cast<double>(all[rank]);
  return sum / static_cast<double>(world().count());
}

EventId CheckedRuntime::quiet() const {
  const EventId last = state_->quiet;
  return last.valid() && last.value + 1 == state_->next_event ? last : EventId{};
}

Status CheckedRuntime::finish() {
  state_->quiet = {};
  TESSERA_TRY(state_->check_consumed());
  if (state_->listener == nullptr) return {};
  enter_step(state_->step + 1);
  state_->listener->run_ended();
  return {};
}

EventId CheckedRuntime::first_live_event() const { return state_->first_live_event(); }
EventId CheckedRuntime::over_before() const { return state_->over_before(); }

bool CheckedRuntime::runs_after(StreamId stream, EventId event, Rank rank) const {
  const StreamOrder& order = state_->orders.of(rank).state;
  return order.before_stream(order.position_of(event), stream);
}

std::vector<PeakMemory> CheckedRuntime::take_peaks(std::int32_t step) {
  std::vector<PeakMemory> peaks;
  for (auto& c : state_->memories.all()) {
    const MemoryUse peak = c.state.ledger.peak();
    for (const RankRange& range : c.ranks.ranges()) {
      peaks.push_back({step, range.begin, range.end, peak.allocated, peak.reserved, peak.by_class});
    }
    c.state.ledger.restart_peak();
  }
  std::sort(peaks.begin(), peaks.end(),
            [](const PeakMemory& a, const PeakMemory& b) { return a.first_rank < b.first_rank; });
  return peaks;
}

}  // namespace tessera
