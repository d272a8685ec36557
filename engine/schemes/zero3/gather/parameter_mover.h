// SPDX-License-Identifier: Apache-2.0
// The mover carries out what a policy decides: gathers begin, arrive and are freed, and modules
// wait for them. It plans nothing.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/schemes/zero3/gather/gather.h"
#include "engine/schemes/zero3/parameters/module_needs.h"

namespace tessera {

class ParameterMover {
 public:
  /// All must outlive it.
  ParameterMover(const GatherTools& tools, const ModuleNeeds& needs, ParameterSwapper& swapper)
      : tools_(tools), needs_(needs), swapper_(swapper) {}

  const GatheredMemory& memory() const { return tools_.memory; }

  /// Starts one all_gather of parameters that are not available.
  Status gather(std::vector<ParameterId> missing, Reason reason);
  /// Gathers these, which are not available, one by one; the host waits.
  Status gather_now(const std::vector<ParameterId>& missing, Reason reason);
  /// Parameters that fly are there when it returns: the stream of gathers waits for them. False:
  /// it did not fly.
  Result<bool> arrive(OnDemandParameter& p);
  /// A parameter that flies will not be used.
  Status drop(OnDemandParameter& p);
  /// Partitions may be written: what was dropped has read them.
  Status follow_dropped();
  /// Drops and frees what flies: others will look at partitions, and perhaps write them.
  Status finish_all();
  /// Frees what is available and needed by no module.
  Status free(OnDemandParameter& p);

  /// The module's work waits for all gathers so far, or only for `arrived`.
  Status wait_for_gathers(ModuleId module);
  Status wait_for_gathers(ModuleId module, std::span<const EventId> arrived);
  /// The view that the model's work reads. Fails: invalid_argument, if it is not there.
  Result<View> view(ParameterId id) const;
  /// The event after the youngest work of the model.
  EventId worked() const { return tools_.operations.worked(); }
  bool in_backward() const { return tools_.operations.in_backward(); }
  /// Stops the host.
  Status wait(EventId event) { return tools_.operations.wait(event); }

  Status note(ModuleId module, Mark mark);
  Status note(const OnDemandParameter& p, Mark mark, Reason reason = Reason::none);
  /// A note of the root.
  Status note(Mark mark);

 private:
  OnDemandParameter& at(ParameterId id) { return tools_.parameters[id]; }
  Cause cause(std::string_view unit, Reason reason) const {
    return tools_.operations.cause(unit, reason);
  }
  Status begin(const std::shared_ptr<Gather>& gather, Reason reason);
  Result<View> gather_alone(OnDemandParameter& p, Reason reason, bool first);
  Status follow_freed(std::string_view unit);
  Status read_own(ModuleId module);

  const GatherTools tools_;
  const ModuleNeeds& needs_;
  ParameterSwapper& swapper_;
  std::int32_t gathers_ = 0;
  std::vector<EventId> freed_;  // last uses of what was freed; gathers do not follow them yet
  bool dropped_ = false;        // a gather that the model's work has not waited for
};

}  // namespace tessera
