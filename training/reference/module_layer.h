// SPDX-License-Identifier: Apache-2.0
// From a module of a Model to the layer that computes it: looks up its parameters by name and
// checks their shapes.
#pragma once

#include <string>

#include "tessera/model.h"
#include "training/reference/layer.h"

namespace tessera::real {

/// Where a parameter of a layer is found in a body's views.
struct ParameterSlot {
  std::int32_t read = -1;   // absent: -1
  std::int32_t write = -1;  // absent or frozen: -1
  std::size_t numel = 0;
};

struct ModuleLayer {
  std::unique_ptr<Layer> layer;
  std::vector<ParameterSlot> parameters;  // in the layer's order
  bool reads_ids = false;                 // an embedding
  std::int64_t rows = 0;                  // of an embedding
  std::int64_t width_in = 0;              // 0: any
  std::int64_t width_out = 0;             // 0: that of the input
};

/// `used`: what a body of the module sees (used_by).
/// Fails: not_supported (another class), invalid_argument (a parameter that is missing, has another
/// shape or does not belong to the class; heads), naming module and parameter.
Result<ModuleLayer> module_layer(const Model& model, ModuleId id,
                                 const std::vector<ParameterId>& used,
                                 std::int64_t sequence_length);

/// "h.0.attn (GPT2Attention)", for messages.
std::string described(const Module& module);

}  // namespace tessera::real
