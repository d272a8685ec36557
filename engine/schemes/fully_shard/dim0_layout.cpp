// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/fully_shard/dim0_layout.h"

#include <fmt/format.h>

namespace tessera {

Result<UnitLayout> dim0_layout(const Model& model, const std::vector<ParameterId>& parameters,
                               Index group_size) {
  UnitLayout layout;
  for (ParameterId id : parameters) {
    const Parameter& parameter = model.parameter(id);
    if (parameter.shape.empty()) {
      return Status(Code::invalid_argument,
                    fmt::format("parameter {} is a scalar and cannot be sharded on dim 0: give it "
                                "shape [1], or take full_shard, zero3 or replicate",
                                parameter.name));
    }
    const std::int64_t rows = parameter.shape[0];
    const Numel numel = parameter.numel();
    const std::int64_t row = rows == 0 ? 0 : numel.value / rows;
    const Numel shard{(rows + group_size - 1) / group_size * row};
    layout.parameters.push_back({id, numel, shard, layout.shard, {}});
    if (parameter.requires_grad) {
      layout.parameters.back().gradient = layout.trained;
      layout.trained += shard;
    }
    layout.shard += shard;
    layout.numel += numel;
  }
  layout.padding = layout.shard * group_size - layout.numel;
  return layout;
}

}  // namespace tessera
