// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/checked_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/runtime/op_checks.h"

namespace tessera {

bool CheckedRuntime::State::is_uncertain(EventId event) const {
  const auto& all = orders.all();
  return std::any_of(all.begin(), all.end(),
                     [event](const auto& c) { return c.state.uncertain(event); });
}

Index CheckedRuntime::State::group_size_of(const Op& op) const {
  CommunicatorId id = communicator_of(op);
  if (const auto* copy = std::get_if<Copy>(&op.what)) id = copy->index_in;
  if (const auto* compute = std::get_if<Compute>(&op.what)) id = compute->index_in;
  return id.valid() ? communicators[id.index()].groups.group_size_max() : 1;
}

Status CheckedRuntime::State::check_waits(const Op& op) const {
  for (EventId event : op.after) {
    if (!event.valid() || event.value >= next_event) {
      return Status(Code::hazard,
                    fmt::format("{} on rank {} waits for event {}, which was never recorded",
                                describe(op), op.where.first(), event.value));
    }
  }
  const auto* wait = std::get_if<Wait>(&op.what);
  if (wait != nullptr && wait->stream.valid() && !known(wait->stream)) {
    return Status(Code::invalid_argument,
                  fmt::format("wait for stream {}: there is no such stream", wait->stream.value));
  }
  return {};
}

Status CheckedRuntime::State::check_submitted(const Op& op) const {
  TESSERA_TRY(check_request(op.where, op.stream, [&] { return describe(op); }));
  TESSERA_TRY(check_waits(op));
  const OpEnvironment environment{
      [this](CommunicatorId id) { return known(id) ? &communicators[id.index()].groups : nullptr; },
      [this](BufferId id) -> std::optional<OpEnvironment::Buffer> {
        const Buffer* found = buffers.find(id);
        if (found == nullptr) return {};
        return OpEnvironment::Buffer{found->bytes, found->memory};
      }};
  return check_op(op, environment);
}

CheckedRuntime::State::Live& CheckedRuntime::State::add_live(BufferId id,
                                                             const Allocation& request) {
  Live& added = live.add(id);
  added.holders = request.where;
  added.memory = request.memory;
  added.ready = {};
  if (places_.empty()) places_.push_back(place_count_++);
  added.place = places_.back();
  places_.pop_back();
  return added;
}

Bytes CheckedRuntime::State::place(Live& held, const Allocation& request, const RankSet& ranks,
                                   OfRanks& memory) {
  auto& allocator = memory.allocator(request.memory);
  const auto placed = allocator.allocate(request.bytes, request.stream, order_of(ranks));
  if (memory.pieces.size() <= held.place) memory.pieces.resize(held.place + 1);
  memory.pieces[held.place] = placed.piece;
  join(held.ready, placed.ready);
  if (request.memory == Memory::device) {
    memory.ledger.record(request.memory_class, request.bytes, allocator.allocated(),
                         allocator.reserved());
  }
  return placed.offset;
}

void CheckedRuntime::State::give_back(const Live& held, const Buffer& buffer, Position after,
                                      OfRanks& memory) {
  auto& allocator = memory.allocator(buffer.memory);
  allocator.release(memory.pieces[held.place], after);
  if (buffer.memory == Memory::device) {
    memory.ledger.record(buffer.memory_class, -buffer.bytes, allocator.allocated(),
                         allocator.reserved());
  }
}

void CheckedRuntime::State::end_live(BufferId id, const RankSet& ranks) {
  Live& ending = *live.find(id);
  if (ending.holders == ranks) {
    places_.push_back(ending.place);
    live.erase(id);
    buffers.gone(id);
    return;
  }
  ending.holders = ending.holders.minus(ranks);
  ending.history.forget(ranks);
}

RankSet CheckedRuntime::State::ran(EventId event, const RankSet& ranks) const {
  const auto at = std::lower_bound(of_some_.begin(), of_some_.end(), event,
                                   [](const auto& some, EventId id) { return some.first < id; });
  const bool everybody = at == of_some_.end() || at->first != event;
  return everybody ? ranks : ranks.intersect(at->second);
}

// From now on `ranks` may know another order than the others, and so find other memory free.
void CheckedRuntime::State::separate(const RankSet& ranks) {
  orders.split(ranks);
  memories.split(ranks);
}

void CheckedRuntime::State::host_wait(EventId event) {
  const RankSet ranks = ran(event, world);
  if (ranks != world) separate(ranks);
  for (auto& c : orders.all()) {
    if (ranks.contains(c.ranks.first())) c.state.host_wait(event);
  }
}

void CheckedRuntime::State::prune() {
  for (auto& c : orders.all()) c.state.prune();
  const EventId live_from = first_live_event();
  while (!of_some_.empty() && of_some_.front().first < live_from) of_some_.pop_front();
}

EventId CheckedRuntime::State::first_live_event() const {
  EventId first{next_event};
  for (const auto& c : orders.all()) first = std::min(first, c.state.first_live());
  return first;
}

EventId CheckedRuntime::State::over_before() const {
  EventId first{next_event};
  for (const auto& c : orders.all()) {
    const EventId of_these = c.state.over_before();
    if (!of_these.valid()) return of_these;
    first = std::min(first, of_these);
  }
  return first;
}

Status CheckedRuntime::State::check_release(const Buffer& buffer, const Live* held, EventId after,
                                            const RankSet& ranks) {
  if (held == nullptr || !held->holders.covers(ranks)) {
    const RankSet without = held == nullptr ? ranks : ranks.minus(held->holders);
    return Status(Code::hazard, fmt::format("release of {} on rank {}: it is not allocated",
                                            buffer.name, without.first()));
  }
  const AccessHistory& history = held->history;
  const auto not_before = [&](EventId event, const RankSet& among) -> Status {
    if (among.empty()) return {};
    return orders.for_each_touched(
        among, [&](const RankSet& alike, const StreamOrder& order) -> Status {
          const RankSet here = orders.single() ? among : alike.intersect(among);
          const Accessor* late = history.not_before(event, order, here);
          if (late == nullptr) return {};
          return Status(
              Code::hazard,
              fmt::format("{} is released on rank {} before the {} that uses it has finished",
                          buffer.name, here.first(), late->to_string()));
        });
  };
  const RankSet knowing = after.valid() ? ran(after, ranks) : RankSet{};
  TESSERA_TRY(not_before(after, knowing));
  if (knowing != ranks) TESSERA_TRY(not_before(EventId{}, ranks.minus(knowing)));
  if (const Accessor* unread = history.unread_collective(ranks)) {
    return Status(Code::hazard,
                  fmt::format("{} is released on rank {}, but nobody used the result of the {}",
                              buffer.name, ranks.first(), unread->to_string()));
  }
  return {};
}

// Only ranks whose memory has a hole elsewhere can be late, so most are not asked one by one.
Status CheckedRuntime::State::check_ready(const Op& op, const Access& access, const RankSet& ranks,
                                          const StreamOrder& order, const Live& used) {
  if (covers(order.clock(op.stream), used.ready)) return {};
  return memories.for_each_touched(
      ranks, [&](const RankSet& alike, const OfRanks& memory) -> Status {
        if (covers(order.clock(op.stream), memory.placement(used).ready)) return {};
        return Status(Code::hazard,
                      fmt::format("{} on rank {} uses {} before the previous buffer in its memory "
                                  "is out of use: a wait is missing",
                                  describe(op), alike.first(), buffers.at(access.buffer).name));
      });
}

Status CheckedRuntime::State::check_access(const Op& op, const Access& access, Index group_size,
                                           const RankSet& ranks, const StreamOrder& order,
                                           const Live* used) {
  if (used == nullptr || !used->holders.covers(ranks)) {
    const RankSet without = used == nullptr ? ranks : ranks.minus(used->holders);
    return Status(Code::hazard, fmt::format("{} on rank {} uses {} after its release", describe(op),
                                            without.first(), buffers.at(access.buffer).name));
  }
  TESSERA_TRY(check_ready(op, access, ranks, order, *used));
  const std::string wrong =
      used->history.check(access, op.stream, group_size, order, {ranks, used->holders});
  if (wrong.empty()) return {};
  return Status(Code::hazard, fmt::format("{} on rank {} uses {} and {}", describe(op),
                                          ranks.first(), buffers.at(access.buffer).name, wrong));
}

void CheckedRuntime::State::wait(const Op& op) {
  const auto* wait = std::get_if<Wait>(&op.what);
  const bool for_stream = wait != nullptr && wait->stream.valid();
  if (op.after.empty() && !for_stream) return;
  if (op.where != world) separate(op.where);
  const auto learn = [&](const RankSet& ranks, auto&& what) {
    for (auto& c : orders.all()) {
      if (orders.single() || ranks.contains(c.ranks.first())) what(c.state);
    }
  };
  for (EventId event : op.after) {
    const RankSet ranks = ran(event, op.where);
    if (ranks.empty()) continue;
    if (ranks != op.where) separate(ranks);
    learn(ranks, [&](StreamOrder& order) { order.wait(op.stream, event); });
  }
  if (!for_stream) return;
  learn(op.where, [&](StreamOrder& order) { order.wait_stream(op.stream, wait->stream); });
}

Status CheckedRuntime::State::order_op(const Op& op, EventId event) {
  wait(op);
  list_accesses(op, accesses_);
  accessed_.clear();
  for (const Access& access : accesses_) accessed_.push_back(live.find(access.buffer));
  const Index group_size = group_size_of(op);
  const auto check = [&](const RankSet& alike, const StreamOrder& order) -> Status {
    const RankSet ranks = orders.single() ? op.where : alike.intersect(op.where);
    for (std::size_t k = 0; k < accesses_.size(); ++k) {
      TESSERA_TRY(check_access(op, accesses_[k], group_size, ranks, order, accessed_[k]));
    }
    return {};
  };
  TESSERA_TRY(orders.for_each_touched(op.where, check));
  Position position;
  for (auto& c : orders.all()) {
    if (orders.single() || !c.ranks.intersect(op.where).empty()) {
      position = c.state.advance(op.stream, event);
    } else {
      c.state.skip(op.stream, event);
    }
  }
  if (op.where != world) of_some_.emplace_back(event, op.where);
  for (std::size_t k = 0; k < accesses_.size(); ++k) {
    accessed_[k]->history.record(accesses_[k], position, Accessor{kind_of(op), op.cause, event},
                                 {op.where, accessed_[k]->holders});
  }
  return {};
}

Status CheckedRuntime::State::check_consumed() const {
  Status wrong;
  live.any_of([&](BufferId id, const Live& held) {
    const Accessor* unread = held.history.unread_collective(held.holders);
    if (unread == nullptr) return false;
    wrong = Status(Code::hazard,
                   fmt::format("the run ends on rank {} without using the result of the {} in {}",
                               held.holders.first(), unread->to_string(), buffers.at(id).name));
    return true;
  });
  return wrong;
}

// The work of its holders was submitted, so whoever comes next runs after it.
std::optional<StreamId> CheckedRuntime::State::given_back(std::string_view name, StreamRole role,
                                                          const Holders& holders) const {
  for (std::size_t s = 0; s < streams.size(); ++s) {
    const StreamId id{static_cast<std::int32_t>(s)};
    if (streams[s].name == name && streams[s].role == role && holders(id) == std::size_t{0}) {
      return id;
    }
  }
  return std::nullopt;
}

// One that nobody has now and that is for the same kind of work, or else the one with its name that
// the fewest have. A stream is an order, so sharing adds waits and takes none away.
std::optional<StreamId> CheckedRuntime::State::shared(std::string_view name, StreamRole role,
                                                      const Holders& holders) const {
  std::optional<StreamId> best;
  std::size_t fewest = 0;
  for (std::size_t s = 0; s < streams.size(); ++s) {
    const StreamId id{static_cast<std::int32_t>(s)};
    const auto held = holders(id);
    if (!held || streams[s].role != role) continue;
    if (*held > 0 && streams[s].name != name) continue;
    if (best && *held >= fewest) continue;
    best = id;
    fewest = *held;
  }
  return best;
}

}  // namespace tessera
