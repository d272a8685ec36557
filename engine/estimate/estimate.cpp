// SPDX-License-Identifier: Apache-2.0
#include "tessera/estimate.h"

#include <algorithm>

namespace tessera {
namespace {

constexpr double half = 2;          // bytes of a parameter or gradient
constexpr double adam_states = 12;  // float32 master, momentum, variance

DeepSpeedAnswer estimate_stage2(const DeepSpeedQuestion& q) {
  const double p = q.parameters;
  const double gpus = static_cast<double>(q.gpus_per_node) * q.nodes;
  if (q.offload_optimizer) {
    return {.device = 2 * p, .host = p * std::max(4 * gpus, 16.0) * q.buffer_factor};
  }
  const double shared = q.as_0_9_0 ? 16 : 18;  // bytes of a parameter, by all GPUs
  return {.device = (20 - shared) * p + shared * p / gpus,
          .host = p * 4 * q.gpus_per_node * q.buffer_factor};
}

DeepSpeedAnswer estimate_stage3(const DeepSpeedQuestion& q) {
  const double p = q.parameters;
  const double gpus = static_cast<double>(q.gpus_per_node) * q.nodes;
  const double largest = 4 * q.largest_layer;  // in 16 bit, with its gradient
  if (!q.offload_optimizer) {
    const double made = q.zero_init ? q.largest_layer : p;
    return {.device = largest + 18 * p / gpus,
            .host = 4 * made * q.gpus_per_node * q.buffer_factor};
  }
  const double kept = (q.offload_parameters ? 18.0 : 16.0) / q.nodes;
  const double whole = 4.0 * q.gpus_per_node;  // every rank makes the model in float32
  return {.device = largest + (q.offload_parameters ? 0 : 2 * p / gpus),
          .host = p * (q.zero_init ? kept : std::max(whole, kept)) * q.buffer_factor};
}

}  // namespace

double zero_model_states(std::int32_t stage, double parameters, double ranks) {
  TESSERA_ASSERT(stage >= 0 && stage <= 3 && ranks >= 1, "there are stages 0 to 3");
  const double states = adam_states / (stage >= 1 ? ranks : 1);
  const double gradients = half / (stage >= 2 ? ranks : 1);
  const double values = half / (stage >= 3 ? ranks : 1);
  return (values + gradients + states) * parameters;
}

double zero_volume(std::int32_t stage) {
  TESSERA_ASSERT(stage >= 0 && stage <= 3, "there are stages 0 to 3");
  return stage == 3 ? 3 : 2;
}

DeepSpeedAnswer deepspeed_estimate(const DeepSpeedQuestion& question) {
  TESSERA_ASSERT(question.stage == 2 || question.stage == 3, "DeepSpeed estimates stages 2 and 3");
  return question.stage == 2 ? estimate_stage2(question) : estimate_stage3(question);
}

Numel largest_layer(const Model& model) {
  Numel largest{};
  for (const Module& module : model.modules) {
    Numel own{};
    for (ParameterId id : module.parameters) own += model.parameter(id).numel();
    largest = std::max(largest, own);
  }
  return largest;
}

double efficiency(double flops_per_byte, double bytes_per_s, double peak_flops_per_s) {
  const double fed = flops_per_byte * bytes_per_s;
  return fed / (fed + peak_flops_per_s);
}

double intensity_of_parameters(double sequence_length, double batch) {
  return sequence_length * batch;
}

double intensity_of_optimizer(double sequence_length, double batch) {
  return sequence_length * batch / 4;
}

double intensity_of_activations(double hidden, double interval) { return 24 * hidden * interval; }

}  // namespace tessera
