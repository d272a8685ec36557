// SPDX-License-Identifier: Apache-2.0
// What a part of ZeRO-3 may ask of its engine: to issue operations with their cause, and memory.
//
// The idea: gathers, buckets and swappers own their buffers and events; the engine owns the order
// of host calls. A part sees of the engine only what is here, so it can be read, and changed,
// without it.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/runtime.h"

namespace tessera {

class Operations {
 public:
  /// The pass that host calls are part of.
  enum class Pass : std::uint8_t { none, forward, backward };

  virtual ~Operations() = default;

  /// Step, micro-batch and phase are those of the engine now.
  virtual Cause cause(std::string_view unit, Reason reason) const = 0;
  virtual Pass pass() const = 0;
  /// A forward pass inside of backward.
  virtual bool recomputing() const = 0;
  virtual std::string_view unit_of(ModuleId module) const = 0;
  /// The event after the model's youngest work.
  virtual EventId worked() const = 0;

  virtual Result<StreamId> create_stream(std::string_view name, StreamRole role) = 0;
  /// `where` is everyone, whatever the request says.
  virtual Result<BufferId> allocate(Allocation request) = 0;
  /// Takes the id away from its owner.
  virtual Status release(BufferId& buffer, EventId after) = 0;
  virtual Result<EventId> submit(StreamId stream, const Cause& cause, decltype(Op::what) what,
                                 std::span<const EventId> after) = 0;
  /// Stops the host.
  virtual Status wait(EventId event) = 0;

  // Said by those above.
  Result<BufferId> allocate(const std::string& name, Bytes bytes, MemoryClass memory_class,
                            StreamId stream, const Cause& cause, Memory memory = Memory::device);
  Result<EventId> submit(StreamId stream, const Cause& cause, decltype(Op::what) what) {
    return submit(stream, cause, std::move(what), {});
  }
  Status wait_stream(StreamId waiting, StreamId other, const Cause& cause) {
    return submit(waiting, cause, Wait{other}).status();
  }
  Status wait_event(StreamId waiting, EventId event, const Cause& cause) {
    return submit(waiting, cause, Wait{}, {&event, 1}).status();
  }
  /// A mark of what `cause` names; `what`: the module or parameter in the unit.
  Result<EventId> note(StreamId stream, Cause cause, std::string_view what, Mark mark);
};

}  // namespace tessera
