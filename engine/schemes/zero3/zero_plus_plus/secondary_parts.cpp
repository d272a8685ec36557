// SPDX-License-Identifier: Apache-2.0
// ZeRO++: what forward gathered is kept once more inside of nodes, for backward (hpZ; deepspeed
// partition_parameters.py: ds_secondary_tensor).
#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

void Zero3Engine::choose_source(Gather& gather) const {
  const bool near = keeps_secondary() && stage_ == Stage::backward &&
                    std::all_of(gather.parameters.begin(), gather.parameters.end(),
                                [this](ParameterId id) { return at(id).has_secondary; });
  gather.secondary = near;
  gather.group = near ? secondary_ : world_;
  gather.parts = near ? options_.plus_plus.secondary_group : ranks_;
}

View Zero3Engine::source_of(const OnDemandParameter& p, const Gather& gather) const {
  if (!gather.secondary) return partition_of(p);
  return View::whole(p.secondary, param_dtype(), part_of(p, gather));
}

// Whoever uses the parameters waits for this copy, too: it reads what they may free.
Status Zero3Engine::keep_secondary(Gather& gather) {
  if (!keeps_secondary() || gather.secondary || stage_ != Stage::forward) return {};
  const std::string_view unit = at(gather.parameters.front()).held.unit;
  const Cause why = cause(unit, Reason::copy_out);
  TESSERA_TRY(wait_event(all_gather_, gather.gathered, cause(unit, Reason::order)));
  const Index group = options_.plus_plus.secondary_group;
  Copy copy{.index_in = secondary_, .pieces = {}};
  for (ParameterId id : gather.parameters) {
    OnDemandParameter& p = at(id);
    const Numel part{p.partition.value * ranks_ / group};
    if (!p.secondary.valid()) {
      TESSERA_ASSIGN(p.secondary,
                     allocate(fmt::format("{}.secondary", name(p)), bytes_of(part, param_dtype()),
                              MemoryClass::sharded_parameters, all_gather_, why));
    }
    copy.pieces.push_back({.from = View::shard(p.full, param_dtype(), part, group),
                           .to = View::whole(p.secondary, param_dtype(), part)});
    p.has_secondary = true;
  }
  TESSERA_ASSIGN(gather.done, submit(all_gather_, why, std::move(copy)));
  return {};
}

void Zero3Engine::forget_secondary() {
  for (OnDemandParameter& p : parameters_) p.has_secondary = false;
}

}  // namespace tessera
