// SPDX-License-Identifier: Apache-2.0
// Rule: `_validate_frozen_params` (torch/distributed/fsdp/_wrap_utils.py), for the root as well.
#include "engine/wrap/frozen_check.h"

#include <fmt/format.h>

#include "engine/text/json_reader.h"

namespace tessera {
namespace {

struct Part {
  Numel numel{};
  std::string first;  // name of a parameter
};

Part part_of(const Model& model, const WrapUnit& unit, bool trained) {
  Part part;
  for (ParameterId id : unit.parameters) {
    const Parameter& parameter = model.parameter(id);
    if (parameter.requires_grad != trained) continue;
    if (part.first.empty()) part.first = parameter.name;
    part.numel += parameter.numel();
  }
  return part;
}

}  // namespace

// Where parameters are views of a flat parameter (torch use_orig_params) a unit can hold both
// kinds, but its flat gradient has a place for frozen ones, too. Without views it cannot hold both:
// a flat parameter is one tensor with one requires_grad.
Status check_frozen(const Model& model, bool uniform_requires_grad, WrapPlan& plan) {
  for (const WrapUnit& unit : plan.units) {
    const Part trained = part_of(model, unit, true);
    const Part frozen = part_of(model, unit, false);
    if (trained.first.empty() || frozen.first.empty()) continue;
    const std::string& path = model.module(unit.module).path;
    const std::string mixes =
        fmt::format("unit {} mixes trained ({}) and frozen ({}) parameters",
                    path.empty() ? "of the root" : in_quotes(path), trained.first, frozen.first);
    if (uniform_requires_grad) {
      return Status(Code::invalid_argument,
                    mixes +
                        ", and a flat parameter is trained or frozen as a whole: wrap the "
                        "frozen ones separately, or shard per parameter");
    }
    plan.warnings.push_back(fmt::format(
        "{}: its gradients take {} elements before they are reduced instead of {}; wrap the frozen "
        "ones separately",
        mixes, (trained.numel + frozen.numel).value, trained.numel.value));
  }
  return {};
}

}  // namespace tessera
