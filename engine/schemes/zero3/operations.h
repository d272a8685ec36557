// SPDX-License-Identifier: Apache-2.0
// What a part of ZeRO-3 may ask of its engine: to issue operations with their cause, memory, and
// where the pass is.
//
// The idea: gathers, buckets and swappers own their buffers and events; the engine owns the order
// of host calls. A part sees of the engine only what is here, so it can be read, and changed,
// without it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/issuer.h"
#include "engine/runtime/copies_by_route.h"

namespace tessera {

class Operations {
 public:
  /// The pass that host calls are part of.
  enum class Pass : std::uint8_t { none, forward, backward };

  /// `issuer` must outlive it.
  explicit Operations(Issuer& issuer) : issuer_(issuer) {}
  virtual ~Operations() = default;

  virtual Pass pass() const = 0;
  /// A forward pass inside of backward.
  virtual bool recomputing() const = 0;
  virtual std::string_view unit_of(ModuleId module) const = 0;

  Cause cause(std::string_view unit, Reason reason) const { return issuer_.cause(unit, reason); }
  /// The event after the model's youngest work.
  EventId worked() const { return issuer_.last_compute(); }
  Result<StreamId> create_stream(std::string_view name, StreamRole role) {
    return issuer_.runtime().create_stream(name, role);
  }

  Result<BufferId> allocate(const std::string& name, Bytes bytes, MemoryClass memory_class,
                            StreamId stream, const Cause& cause, Memory memory = Memory::device) {
    return issuer_.allocate(name, bytes, memory_class, stream, cause, memory);
  }
  /// In a file of `directory`, for Memory::nvme.
  Result<BufferId> allocate_in(std::string_view directory, Memory memory, const std::string& name,
                               Bytes bytes, MemoryClass memory_class, const Cause& cause);
  /// Takes the id away from its owner.
  Status release(BufferId& buffer, EventId after) { return issuer_.release(buffer, after); }

  Result<EventId> submit(StreamId stream, const Cause& cause, decltype(Op::what) what,
                         std::span<const EventId> after = {}) {
    return issuer_.submit(stream, cause, std::move(what), after);
  }
  Status wait_stream(StreamId waiting, StreamId other, const Cause& cause) {
    return issuer_.wait_stream(waiting, other, cause);
  }
  Status wait_event(StreamId waiting, EventId event, const Cause& cause) {
    return issuer_.wait_event(waiting, event, cause);
  }
  /// Stops the host.
  Status wait(EventId event) { return issuer_.runtime().wait(event); }
  /// One copy per route. The event after all; none, if there are no pieces.
  Result<EventId> copy_by_route(StreamId stream, const Cause& why, CommunicatorId index_in,
                                const std::vector<RoutedBlocks>& pieces);
  /// A mark of what `cause` names; `what`: the module or parameter in the unit.
  Result<EventId> note(StreamId stream, Cause cause, std::string_view what, Mark mark);

 private:
  Issuer& issuer_;
};

}  // namespace tessera
