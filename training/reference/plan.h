// SPDX-License-Identifier: Apache-2.0
// How data flow through a model's forward list.
//
// The idea: an entry of the forward list is a visit. A visit reads the output of an earlier one (or
// the data), and may add the output of another: that is all a residual network needs.
#pragma once

#include "tessera/real_model.h"
#include "training/reference/module_layer.h"

namespace tessera::real {

struct Visit {
  static constexpr int data = -1;       // instead of a visit: token ids or floats
  static constexpr int positions = -2;  // 0, 1, ... of every sequence
  static constexpr int none = -3;

  ModuleId module;
  ModuleLayer layer;
  int input = data;
  int residual = none;              // the visit whose output is added
  std::size_t recompute_first = 0;  // first visit of this run inside a block; outside: itself
};

struct Plan {
  std::vector<Visit> visits;
  std::int64_t input_width = 1;
  std::int64_t vocabulary = 0;  // 0: the data are floats
  std::int64_t output_width = 0;

  bool predicts_tokens() const { return vocabulary > 0 && output_width == vocabulary; }
};

/// Fails: as RealModel::create.
Result<Plan> make_plan(const Model& model, const RealModelOptions& options);

}  // namespace tessera::real
