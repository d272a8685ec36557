// SPDX-License-Identifier: Apache-2.0
// The layers of a Model, by module.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/math/device_plan.h"
#include "tessera/language_model.h"
#include "training/kernels/host_math.h"
#include "training/kernels/rope.h"
#include "training/language/layers.h"

namespace tessera::language {

struct PlannedLayer {
  std::unique_ptr<Layer> layer;
  bool in_block = false;                // what it saves is made again, if blocks are checkpointed
  bool runs_backward = true;            // false: nothing before it, nor it, is trained
  std::size_t reads = 0, writes = 0;    // parameters and gradients of its work
  std::vector<ParameterId> parameters;  // in the order of its work
};

/// Refers to itself: stays where it was made.
struct Plan {
  Shape shape;
  std::int64_t vocabulary = 0;
  std::int64_t blocks = 0;
  ModuleId first, last;                // that run
  std::vector<Parameter> parameters;   // of the model
  std::vector<std::string> classes;    // of the modules that own them
  kernels::RotaryTable rotary;         // half is 0 where positions are learned
  kernels::RotaryTable window_rotary;  // of blocks with a window, where it is another
  bool parallel = false;               // Workspace::held is used
  float logit_cap = 0;                 // HeadSlots::cap
  bool norms_about_one = false;
  bool repeats_norms = false;  // Workspace::normal is used
  kernels::HostMath host;
  std::map<ModuleId, PlannedLayer> layers;

  explicit Plan(const Shape& s)
      : shape(s),
        host(s.threads, s.processor == Processor::cpu ? kernels::HostMath::Memory::given
                                                      : kernels::HostMath::Memory::own),
        device_(s.processor == Processor::hopper) {}

  kernels::MathPlan& math() {
    return shape.processor == Processor::cpu ? static_cast<kernels::MathPlan&>(host) : device_;
  }

  /// Fails: see LanguageModel::create.
  static Result<std::unique_ptr<Plan>> make(const Model& model, const Shape& shape);

 private:
  kernels::DevicePlan device_;
};

}  // namespace tessera::language
