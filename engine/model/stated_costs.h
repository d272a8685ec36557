// SPDX-License-Identifier: Apache-2.0
// What a module tree says that its modules cost (docs/model-format.md).
#pragma once

#include <string_view>
#include <vector>

#include "engine/text/json_reader.h"
#include "tessera/model.h"

namespace tessera {

/// The costs that a module states; the rest is to be found from shapes.
struct StatedCosts {
  ModuleCost cost;
  Polynomial checkpoint_bytes;
  bool flops = false, activations = false, elementwise = false, kernels = false;
  bool checkpoint = false;

  bool any() const { return flops || activations || elementwise || kernels; }
};

/// The keys of costs.
const std::vector<std::string_view>& cost_keys();

/// The costs that the module states which `reader` reads.
/// Fails: invalid_argument, naming the key: of the wrong form, negative, or two keys that
/// contradict each other.
Result<StatedCosts> read_costs(JsonReader& reader);

}  // namespace tessera
