// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/zero_plus_plus/secondary_parts.h"

#include <fmt/format.h>

#include <algorithm>

namespace tessera {

// Backward only: forward gathers new values after every step, and keeps them here. One old part
// among the parameters of a gather sends all of it the long way, so that it stays one collective.
bool SecondaryParts::serve(const std::vector<ParameterId>& parameters) const {
  if (!exist() || !operations_.in_backward() || parts_.empty()) return false;
  return std::all_of(parameters.begin(), parameters.end(),
                     [this](ParameterId id) { return parts_[id.index()].current; });
}

View SecondaryParts::of(const OnDemandParameter& p) const {
  const Part& part = parts_[p.id.index()];
  TESSERA_ASSERT(part.current && part.buffer.valid(), "an old part is never gathered");
  return View::whole(part.buffer, facts_.param_dtype(), part_of(p));
}

// Memory of a part stays for good: it is needed again in the next step.
Result<EventId> SecondaryParts::keep(const std::vector<ParameterId>& parameters, EventId gathered) {
  const std::string_view unit = parameters_[parameters.front()].shard.unit;
  const Cause why = operations_.cause(unit, Reason::copy_out);
  TESSERA_TRY(
      operations_.wait_event(facts_.all_gather, gathered, operations_.cause(unit, Reason::order)));
  Copy copy{.index_in = facts_.secondary, .pieces = {}};
  for (ParameterId id : parameters) {
    const OnDemandParameter& p = parameters_[id];
    const Numel numel = part_of(p);
    TESSERA_ASSERT(p.copy.buffer().valid(), "what is kept was gathered");
    Part& kept = part(id);
    if (!kept.buffer.valid()) {
      TESSERA_ASSIGN(kept.buffer,
                     operations_.allocate(fmt::format("{}.secondary", facts_.name(id)),
                                          bytes_of(numel, facts_.param_dtype()),
                                          MemoryClass::sharded_parameters, facts_.all_gather, why));
    }
    copy.pieces.push_back(
        {.from = View::shard(p.copy.buffer(), facts_.param_dtype(), numel, group()),
         .to = View::whole(kept.buffer, facts_.param_dtype(), numel)});
    kept.current = true;
  }
  return operations_.submit(facts_.all_gather, why, std::move(copy));
}

void SecondaryParts::forget() {
  for (Part& part : parts_) part.current = false;
}

}  // namespace tessera
