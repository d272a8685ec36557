// SPDX-License-Identifier: Apache-2.0
// The engine as parts of ZeRO-3 see it: to issue operations with their cause, memory, and
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

#include "engine/base/call_order.h"
#include "engine/base/issuer.h"
#include "engine/base/unit_table.h"
#include "engine/values/copies_by_route.h"

namespace tessera {

class Operations {
 public:
  /// All must outlive it.
  Operations(Issuer& issuer, const CallOrder& calls, const UnitTable& units)
      : issuer_(issuer), calls_(calls), units_(units) {}

  bool in_forward() const { return calls_.in(CallOrder::Stage::forward); }
  bool in_backward() const { return calls_.in(CallOrder::Stage::backward); }
  /// A forward pass inside of backward.
  bool recomputing() const { return calls_.recomputing(); }
  std::string_view unit_of(ModuleId module) const { return units_.unit_name_of(module); }

  Cause cause(std::string_view unit, Reason reason) const { return issuer_.cause(unit, reason); }
  /// The event after the model's youngest work.
  EventId worked() const { return issuer_.last_compute(); }
  Result<StreamId> create_stream(std::string_view name, StreamRole role) {
    return issuer_.create_stream(name, role);
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
  const CallOrder& calls_;
  const UnitTable& units_;
};

}  // namespace tessera
