// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/checked_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/runtime/op_checks.h"

namespace tessera {

bool CheckedRuntime::State::is_live(BufferId id) const {
  const auto& all = classes.all();
  return std::any_of(all.begin(), all.end(),
                     [id](const auto& c) { return c.state.live.find(id) != nullptr; });
}

bool CheckedRuntime::State::is_uncertain(EventId event) const {
  const auto& all = classes.all();
  return std::any_of(all.begin(), all.end(),
                     [event](const auto& c) { return c.state.order.uncertain(event); });
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

Status CheckedRuntime::State::check_release(const Buffer& buffer, const Live* live, EventId after,
                                            const RankSet& ranks, const OfRanks& state) const {
  if (live == nullptr) {
    return Status(Code::hazard, fmt::format("release of {} on rank {}: it is not allocated",
                                            buffer.name, ranks.first()));
  }
  const AccessHistory& history = live->history;
  if (const Accessor* late = history.not_before(after, state.order)) {
    return Status(Code::hazard,
                  fmt::format("{} is released on rank {} before the {} that uses it has finished",
                              buffer.name, ranks.first(), late->to_string()));
  }
  if (const Accessor* unread = history.unread_collective()) {
    return Status(Code::hazard,
                  fmt::format("{} is released on rank {}, but nobody used the result of the {}",
                              buffer.name, ranks.first(), unread->to_string()));
  }
  return {};
}

Status CheckedRuntime::State::check_access(const Op& op, const Access& access, Index group_size,
                                           const Live* live, const RankSet& ranks,
                                           const OfRanks& state) const {
  if (live == nullptr) {
    return Status(Code::hazard, fmt::format("{} on rank {} uses {} after its release", describe(op),
                                            ranks.first(), buffers.at(access.buffer).name));
  }
  if (!covers(state.order.clock(op.stream), live->ready)) {
    return Status(Code::hazard,
                  fmt::format("{} on rank {} uses {} before the previous buffer in its memory is "
                              "out of use: a wait is missing",
                              describe(op), ranks.first(), buffers.at(access.buffer).name));
  }
  const std::string wrong = live->history.check(access, op.stream, group_size, state.order);
  if (wrong.empty()) return {};
  return Status(Code::hazard, fmt::format("{} on rank {} uses {} and {}", describe(op),
                                          ranks.first(), buffers.at(access.buffer).name, wrong));
}

Status CheckedRuntime::State::order_op(const Op& op, EventId event, const RankSet& ranks,
                                       OfRanks& state) {
  for (EventId waited : op.after) state.order.wait(op.stream, waited);
  if (const auto* wait = std::get_if<Wait>(&op.what); wait != nullptr && wait->stream.valid()) {
    state.order.wait_stream(op.stream, wait->stream);
  }
  const Index group_size = group_size_of(op);
  accessed_.clear();
  for (const Access& access : accesses) {
    accessed_.push_back(state.live.find(access.buffer));
    TESSERA_TRY(check_access(op, access, group_size, accessed_.back(), ranks, state));
  }
  const Position position = state.order.advance(op.stream, event);
  for (std::size_t k = 0; k < accesses.size(); ++k) {
    accessed_[k]->history.record(accesses[k], position, Accessor{kind_of(op), op.cause, event});
  }
  return {};
}

Status CheckedRuntime::State::check_consumed() const {
  for (const auto& c : classes.all()) {
    Status wrong;
    c.state.live.any_of([&](BufferId id, const Live& live) {
      const Accessor* unread = live.history.unread_collective();
      if (unread == nullptr) return false;
      wrong = Status(Code::hazard,
                     fmt::format("the run ends on rank {} without using the result of the {} in {}",
                                 c.ranks.first(), unread->to_string(), buffers.at(id).name));
      return true;
    });
    if (!wrong.ok()) return wrong;
  }
  return {};
}

}  // namespace tessera
