// SPDX-License-Identifier: Apache-2.0
// The layers of a Model, by module.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/train/language/layers.h"
#include "tessera/language_model.h"

namespace tessera::language {

struct PlannedLayer {
  std::unique_ptr<Layer> layer;
  bool in_block = false;                // what it saves is made again, if blocks are checkpointed
  std::size_t reads = 0, writes = 0;    // parameters and gradients of its work
  std::vector<ParameterId> parameters;  // in the order of its work
};

/// Refers to itself: stays where it was made.
struct Plan {
  Shape shape;
  std::int64_t vocabulary = 0;
  std::int64_t blocks = 0;
  ModuleId first, last;               // that run
  std::vector<Parameter> parameters;  // of the model
  std::vector<std::string> classes;   // of the modules that own them
  kernels::Matmuls matmuls;
  std::map<ModuleId, PlannedLayer> layers;
  ModuleId head_norm;  // the last norm

  explicit Plan(const Shape& s) : shape(s), matmuls(s.threads) {}

  /// Fails: see LanguageModel::create.
  static Result<std::unique_ptr<Plan>> make(const Model& model, const Shape& shape);
};

}  // namespace tessera::language
