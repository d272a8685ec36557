// SPDX-License-Identifier: Apache-2.0
// A wrap plan as text, for traces: what it says can be read without the model's numbering.
#pragma once

#include <string>
#include <vector>

#include "tessera/wrap.h"

namespace tessera {

struct PlanText {
  /// "(root)", "h.0", "h.1 mixed_precision=false reshard_after_forward=true"; pre-order.
  std::vector<std::string> units;
  std::vector<std::string> ignored;  // names of parameters
};

PlanText to_text(const WrapPlan& plan, const Model& model);

/// The plan again. Fails: invalid_argument, naming a line that is none or a module or parameter
/// that `model` has not.
Result<WrapPlan> plan_from_text(const PlanText& text, const Model& model);

}  // namespace tessera
