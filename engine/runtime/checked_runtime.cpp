// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/checked_runtime.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/runtime/op_checks.h"

namespace tessera {

CheckedRuntime::CheckedRuntime(RankSet world, RankSet carried)
    : world_(std::move(world)), local_ranks_(std::move(carried)), classes_(world_, RankState{}) {
  TESSERA_ASSERT(!local_ranks_.empty() && world_.covers(local_ranks_),
                 "a runtime carries at least one rank of the world");
}

Result<StreamId> CheckedRuntime::create_stream(std::string_view name, StreamRole role) {
  if (streams_.size() == stream_count_max) {
    return Status(
        Code::invalid_argument,
        fmt::format("stream '{}': a runtime has at most {} streams", name, stream_count_max));
  }
  const StreamId id{static_cast<std::int32_t>(streams_.size())};
  streams_.push_back({std::string(name), role});
  for (auto& c : classes_.all()) c.state.order.add_stream();
  do_stream(id, streams_.back());
  return id;
}

Result<CommunicatorId> CheckedRuntime::create_communicator(const RankGroups& groups,
                                                           std::string_view name) {
  if (!world_.covers(groups.ranks())) {
    return Status(Code::invalid_argument,
                  fmt::format("communicator '{}' has ranks {}, but the run has {}", name,
                              groups.ranks().minus(world_).to_string(), world_.to_string()));
  }
  const CommunicatorId id{static_cast<std::int32_t>(communicators_.size())};
  communicators_.push_back({std::string(name), groups});
  do_communicator(id, communicators_.back());
  return id;
}

template <class What>
Status CheckedRuntime::check_request(const RankSet& where, StreamId stream,
                                     const What& what) const {
  if (where.empty()) {
    return Status(Code::invalid_argument, fmt::format("{}: holds for no rank", what()));
  }
  if (!world_.covers(where)) {
    return Status(Code::invalid_argument, fmt::format("{}: the run has no ranks {}", what(),
                                                      where.minus(world_).to_string()));
  }
  if (!known(stream)) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: there is no stream {}", what(), stream.value));
  }
  return {};
}

Result<BufferId> CheckedRuntime::allocate(const Allocation& request) {
  TESSERA_TRY(check_request(request.where, request.stream,
                            [&] { return fmt::format("buffer {}", request.name); }));
  if (request.bytes < Bytes{0}) {
    return Status(Code::invalid_argument,
                  fmt::format("buffer {}: {} bytes", request.name, request.bytes.value));
  }
  const BufferId id = buffers_.add(
      {std::string(request.name), request.bytes, request.memory, request.memory_class});
  TESSERA_TRY(do_allocate(id, request));
  TESSERA_TRY(classes_.for_each_in(request.where, [&](const RankSet& ranks, RankState& state) {
    auto& allocator = state.allocators[static_cast<std::size_t>(request.memory)];
    const auto placed = allocator.allocate(request.bytes, request.stream, state.order);
    Live& live = state.live.add(id);
    live.piece = placed.piece;
    live.offset = placed.offset;
    live.ready = placed.ready;
    if (request.memory == Memory::device) {
      state.ledger.record(request.memory_class, request.bytes, allocator.allocated(),
                          allocator.reserved());
    }
    return do_placement(id, request, ranks, state);
  }));
  return id;
}

Status CheckedRuntime::release(BufferId id, EventId after, const RankSet& where) {
  const Buffer* known = buffers_.find(id);
  if (known == nullptr) {
    return Status(Code::invalid_argument, fmt::format("release: there is no buffer {}", id.value));
  }
  const Buffer& record = *known;
  TESSERA_TRY(
      check_request(where, StreamId{0}, [&] { return fmt::format("release of {}", record.name); }));
  if (after.value >= next_event_) {
    return Status(Code::invalid_argument, fmt::format("release of {}: event {} was never recorded",
                                                      record.name, after.value));
  }
  if (after.valid() && is_uncertain(after)) {
    TESSERA_ASSIGN(after, after_everything(StreamId{0}, where));
  }
  TESSERA_TRY(classes_.for_each_in(where, [&](const RankSet& ranks, RankState& state) -> Status {
    const Live* const live = state.live.find(id);
    if (live == nullptr) {
      return Status(Code::hazard, fmt::format("release of {} on rank {}: it is not allocated",
                                              record.name, ranks.first()));
    }
    const AccessHistory& history = live->history;
    if (const Accessor* late = history.not_before(after, state.order)) {
      return Status(Code::hazard,
                    fmt::format("{} is released on rank {} before the {} that uses it has finished",
                                record.name, ranks.first(), late->to_string()));
    }
    if (const Accessor* unread = history.unread_collective()) {
      return Status(Code::hazard,
                    fmt::format("{} is released on rank {}, but nobody used the result of the {}",
                                record.name, ranks.first(), unread->to_string()));
    }
    auto& allocator = state.allocators[static_cast<std::size_t>(record.memory)];
    const Position position = after.valid() ? state.order.position_of(after) : Position{};
    allocator.release(live->piece, position);
    state.live.erase(id);
    if (record.memory == Memory::device) {
      state.ledger.record(record.memory_class, -record.bytes, allocator.allocated(),
                          allocator.reserved());
    }
    do_release(id, after, ranks, state);
    return {};
  }));
  if (!is_live(id)) buffers_.gone(id);
  return {};
}

bool CheckedRuntime::is_live(BufferId id) const {
  const auto& all = classes_.all();
  return std::any_of(all.begin(), all.end(),
                     [id](const auto& c) { return c.state.live.find(id) != nullptr; });
}

Status CheckedRuntime::check_waits(const Op& op) const {
  for (EventId event : op.after) {
    if (!event.valid() || event.value >= next_event_) {
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

Index CheckedRuntime::group_size_of(const Op& op) const {
  CommunicatorId id = communicator_of(op);
  if (const auto* copy = std::get_if<Copy>(&op.what)) id = copy->index_in;
  if (const auto* compute = std::get_if<Compute>(&op.what)) id = compute->index_in;
  return id.valid() ? communicator(id).groups.group_size_max() : 1;
}

Status CheckedRuntime::check_access(const Op& op, const Access& access, Index group_size,
                                    const Live* live, const RankSet& ranks,
                                    const RankState& state) const {
  if (live == nullptr) {
    return Status(Code::hazard, fmt::format("{} on rank {} uses {} after its release", describe(op),
                                            ranks.first(), buffer(access.buffer).name));
  }
  if (!covers(state.order.clock(op.stream), live->ready)) {
    return Status(Code::hazard,
                  fmt::format("{} on rank {} uses {} before the previous buffer in its memory is "
                              "out of use: a wait is missing",
                              describe(op), ranks.first(), buffer(access.buffer).name));
  }
  const std::string wrong = live->history.check(access, op.stream, group_size, state.order);
  if (wrong.empty()) return {};
  return Status(Code::hazard, fmt::format("{} on rank {} uses {} and {}", describe(op),
                                          ranks.first(), buffer(access.buffer).name, wrong));
}

Status CheckedRuntime::order_op(const Op& op, EventId event, const RankSet& ranks,
                                RankState& state) {
  for (EventId waited : op.after) state.order.wait(op.stream, waited);
  if (const auto* wait = std::get_if<Wait>(&op.what); wait != nullptr && wait->stream.valid()) {
    state.order.wait_stream(op.stream, wait->stream);
  }
  const Index group_size = group_size_of(op);
  accessed_.clear();
  for (const Access& access : accesses_) {
    accessed_.push_back(state.live.find(access.buffer));
    TESSERA_TRY(check_access(op, access, group_size, accessed_.back(), ranks, state));
  }
  const Position position = state.order.advance(op.stream, event);
  for (std::size_t k = 0; k < accesses_.size(); ++k) {
    accessed_[k]->history.record(accesses_[k], position, Accessor{kind_of(op), op.cause, event});
  }
  return {};
}

bool CheckedRuntime::is_uncertain(EventId event) const {
  const auto& all = classes_.all();
  return std::any_of(all.begin(), all.end(),
                     [event](const auto& c) { return c.state.order.uncertain(event); });
}

// What stands for events whose order has been forgotten: whatever they are, it is later.
Result<EventId> CheckedRuntime::after_everything(StreamId stream, const RankSet& where) {
  Op wait{.stream = stream, .where = where, .after = {}, .cause = {}, .what = Wait{}};
  wait.cause.reason = Reason::order;
  EventId last;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(streams_.size()); ++s) {
    wait.what = Wait{StreamId{s}};
    TESSERA_ASSIGN(last, submit(wait));
  }
  return last;
}

Result<EventId> CheckedRuntime::submit(const Op& op) {
  TESSERA_TRY(check_request(op.where, op.stream, [&] { return describe(op); }));
  TESSERA_TRY(check_waits(op));
  const OpEnvironment environment{
      [this](CommunicatorId id) {
        const bool exists = id.valid() && id.value < static_cast<int>(communicators_.size());
        return exists ? &communicator(id).groups : nullptr;
      },
      [this](BufferId id) -> std::optional<OpEnvironment::Buffer> {
        const Buffer* known = buffers_.find(id);
        if (known == nullptr) return {};
        return OpEnvironment::Buffer{known->bytes, known->memory};
      }};
  TESSERA_TRY(check_op(op, environment));
  if (std::any_of(op.after.begin(), op.after.end(),
                  [this](EventId e) { return is_uncertain(e); })) {
    TESSERA_TRY(after_everything(op.stream, op.where).status());
  }

  const EventId event{next_event_};
  list_accesses(op, accesses_);
  TESSERA_TRY(classes_.for_each_in(op.where, [&](const RankSet& ranks, RankState& state) {
    return order_op(op, event, ranks, state);
  }));
  classes_.for_each_outside(op.where,
                            [&](const RankSet&, RankState& state) { state.order.skip(event); });
  ++next_event_;
  if (event.value % 64 == 63) {
    for (auto& c : classes_.all()) c.state.order.prune();
  }
  TESSERA_TRY(execute(op, event));
  return event;
}

Status CheckedRuntime::wait(EventId event) {
  if (!event.valid() || event.value >= next_event_) {
    return Status(Code::hazard, fmt::format("the host waits for event {}, which was never recorded",
                                            event.value));
  }
  for (auto& c : classes_.all()) c.state.order.host_wait(event);
  return do_wait(event);
}

EventId CheckedRuntime::first_live_event() const {
  EventId first{next_event_};
  for (const auto& c : classes_.all()) first = std::min(first, c.state.order.first_live());
  return first;
}

std::vector<PeakMemory> CheckedRuntime::take_peaks(std::int32_t step) {
  std::vector<PeakMemory> peaks;
  for (auto& c : classes_.all()) {
    const auto& peak = c.state.ledger.peak();
    for (const RankRange& range : c.ranks.ranges()) {
      peaks.push_back({step, range.begin, range.end, peak.allocated, peak.reserved, peak.by_class});
    }
    c.state.ledger.restart_peak();
  }
  return peaks;
}

Status CheckedRuntime::check_consumed() const {
  for (const auto& c : classes_.all()) {
    Status wrong;
    c.state.live.any_of([&](BufferId id, const Live& live) {
      const Accessor* unread = live.history.unread_collective();
      if (unread == nullptr) return false;
      wrong = Status(Code::hazard,
                     fmt::format("the run ends on rank {} without using the result of the {} in {}",
                                 c.ranks.first(), unread->to_string(), buffer(id).name));
      return true;
    });
    if (!wrong.ok()) return wrong;
  }
  return {};
}

}  // namespace tessera
