// SPDX-License-Identifier: Apache-2.0
// What is trained may change between a step and the next forward pass: groups and gradient
// partitions are made anew. Optimizer states stay with their parameters, also of frozen ones.
#include <fmt/format.h>

#include <algorithm>

#include "engine/schemes/zero3/zero3_engine.h"

namespace tessera {

// Per group of the optimizer; a sub-group is closed by the parameter that makes it large enough.
// One lives in one place: it is stepped in one operation.
void Zero3Engine::form_sub_groups() {
  sub_groups_.clear();
  for (const ParamGroup& group : param_groups_.all()) {
    Numel size = options_.sub_group_size;
    for (ParameterId id : group.parameters) {
      const OnDemandParameter& p = at(id);
      if (!p.trained) continue;
      const bool elsewhere = !sub_groups_.empty() && !sub_groups_.back().empty() &&
                             at(sub_groups_.back().back()).held.memory != p.held.memory;
      if (size >= options_.sub_group_size || elsewhere) {
        sub_groups_.emplace_back();
        size = Numel{0};
      }
      sub_groups_.back().push_back(id);
      size += p.partition;
    }
  }
}

Status Zero3Engine::on_param_groups() {
  form_sub_groups();
  return {};
}

Status Zero3Engine::refresh_trainable() {
  auto changed = [this](const OnDemandParameter& p) {
    return p.trained != model_.parameter(p.id).requires_grad;
  };
  const auto first = std::find_if(parameters_.begin(), parameters_.end(), changed);
  if (first == parameters_.end()) return {};
  if (!facts_.rules.follows_what_is_trained) {
    return Status(Code::invalid_argument,
                  fmt::format("requires_grad of {} changed, which the compatible policy cannot "
                              "follow, as DeepSpeed cannot: use the strict one",
                              name(*first)));
  }
  if (std::any_of(parameters_.begin(), parameters_.end(),
                  [](const OnDemandParameter& p) { return p.has_gradient; })) {
    return Status(Code::invalid_argument,
                  fmt::format("requires_grad of {} changed while there are gradients: change it "
                              "between a step and the next forward",
                              name(*first)));
  }
  for (OnDemandParameter& p : parameters_) {
    p.trained = model_.parameter(p.id).requires_grad;
    p.held.map = ShardMap({{p.id, Numel{0}, p.numel, p.trained}}, p.partition);
  }
  form_sub_groups();
  // What reduces next has to follow the last reader of the old buffers.
  TESSERA_TRY(wait_stream(reduce_, compute_, cause("root", Reason::order)));
  for (BufferId& partitions : partitions_) {
    if (partitions.valid()) TESSERA_TRY(release(partitions, last_compute()));
  }
  if (bucket_buffer_.valid()) TESSERA_TRY(release(bucket_buffer_, last_compute()));
  TESSERA_TRY(allocate_gradients());
  policy_->graph_changed();
  return {};
}

}  // namespace tessera
