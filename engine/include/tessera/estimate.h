// SPDX-License-Identifier: Apache-2.0
// Rules of thumb that others publish, to hold against what a simulated run really needs.
//
// The idea: these formulas know nothing of buckets, prefetch, activations and fragmentation, so
// they are lower bounds and not predictions; `tessera estimate` shows both.
//
//   zero_model_states(2, 7.5e9, 64);                                        // 16.6e9 bytes
//   deepspeed_estimate({.stage = 3, .parameters = 2851e6, ...}).device;     // bytes
#pragma once

#include <cstdint>

#include "tessera/model.h"

namespace tessera {

/// Bytes per rank of parameters and gradients in 16 bit and Adam's states in float32, stages 0 to 3
/// (Rajbhandari et al., ZeRO, arXiv 1910.02054, section 5 and figure 1; K = 12).
/// REQUIRES: 0 <= stage <= 3, ranks >= 1.
double zero_model_states(std::int32_t stage, double parameters, double ranks);

/// Elements that a rank sends in a step, per parameter: 2 in stages 0 to 2, 3 in stage 3 (section 7
/// of the same). REQUIRES: 0 <= stage <= 3.
double zero_volume(std::int32_t stage);

/// The arguments of DeepSpeed's estimate_zero2_model_states_mem_needs and of the one for zero3.
struct DeepSpeedQuestion {
  std::int32_t stage = 3;    // 2 or 3
  double parameters = 0;     // of the model
  double largest_layer = 0;  // parameters of the largest module without children; stage 3
  std::int32_t gpus_per_node = 1;
  std::int32_t nodes = 1;
  bool offload_optimizer = false;
  bool offload_parameters = false;  // stage 3, together with the optimizer
  bool zero_init = true;            // stage 3: the model is made in parts (zero.Init)
  double buffer_factor = 1.5;       // for the host
  bool as_0_9_0 = false;            // stage 2 without offloading counted gradients of all ranks
};

struct DeepSpeedAnswer {
  double device = 0;  // bytes per GPU
  double host = 0;    // bytes per node
};

/// The memory that DeepSpeed 0.19.8, or 0.9.0, estimates (deepspeed/runtime/zero/stage3.py and
/// stage_1_and_2.py: estimate_zero*_model_states_mem_needs). REQUIRES: stage 2 or 3.
DeepSpeedAnswer deepspeed_estimate(const DeepSpeedQuestion& question);

/// The largest number of parameters that a module of `model` has itself: DeepSpeed's largest layer.
Numel largest_layer(const Model& model);

/// Share of the peak that is reached when every byte of bandwidth (bytes/s) has to carry so many
/// floating point operations and nothing overlaps (ZeRO-Infinity, arXiv 2104.07857, section 4).
double efficiency(double flops_per_byte, double bytes_per_s, double peak_flops_per_s);

/// Floating point operations of a step per byte of what is moved (section 4.1 of the same).
double intensity_of_parameters(double sequence_length, double batch);  // and their gradients
double intensity_of_optimizer(double sequence_length, double batch);
/// `interval`: blocks between two activation checkpoints.
double intensity_of_activations(double hidden, double interval);

}  // namespace tessera
