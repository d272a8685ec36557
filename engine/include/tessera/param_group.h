// SPDX-License-Identifier: Apache-2.0
// Which parameters the optimizer steps, and with which numbers.
//
// The idea: `step(options)` says what holds for all parameters, a schedule of the learning rate for
// instance. A group says what is different for its own. At first there is one group with every
// parameter and nothing different.
//
//   ParamGroup decayed{.parameters = matrices, .adam = {.weight_decay = 0.1F}};
//   ParamGroup others{.parameters = vectors};
//   TESSERA_TRY(engine->set_param_groups({decayed, others}));   // before the first step
//   ...
//   TESSERA_TRY(engine->add_param_group({.parameters = head}));  // what was in no group so far
//
// A parameter that is in no group is not stepped and has no optimizer state. Every parameter counts
// its own steps, so one that joins late begins as one that was there from the start.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/types.h"

namespace tessera {

/// How an optimizer keeps its states. int8: with a float32 scale for every 256 elements (Dettmers
/// et al. 2022, arXiv 2110.02861).
enum class StateType : std::uint8_t { float32, bfloat16, int8 };

/// AdamW (Loshchilov and Hutter, arXiv 1711.05101) in float32 on the shards.
struct AdamOptions {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;
  /// States that ranks keep per element: 2 are AdamW's moments. 1 and 0 cost what Lion, Adagrad or
  /// plain SGD do, in memory and time, and step nothing: only for runs without real numbers.
  std::int32_t states = 2;
  /// How they are kept; none: in the dtype of what is stepped. AdamW's in bfloat16 beside float32
  /// are rounded at random, by the element's place and the step (Kernels::adam_in_halves), on CPUs.
  /// Any other is cost and memory too, and steps nothing.
  std::optional<StateType> state_type = {};
};

/// The settings of a group that differ from those passed to `step`.
struct AdamOverrides {
  std::optional<float> learning_rate = {}, beta1 = {}, beta2 = {}, epsilon = {}, weight_decay = {};

  AdamOptions over(const AdamOptions& step) const {
    return {.learning_rate = learning_rate.value_or(step.learning_rate),
            .beta1 = beta1.value_or(step.beta1),
            .beta2 = beta2.value_or(step.beta2),
            .epsilon = epsilon.value_or(step.epsilon),
            .weight_decay = weight_decay.value_or(step.weight_decay),
            .states = step.states,
            .state_type = step.state_type};
  }
};

struct ParamGroup {
  std::vector<ParameterId> parameters = {};  // may be empty
  AdamOverrides adam = {};
  /// Groups of one optimizer belong together. `step` steps all optimizers; what it means to have
  /// several is said where a scheme knows them (ShardedDataParallel::step_optimizer).
  std::int32_t optimizer = 0;
};

}  // namespace tessera
