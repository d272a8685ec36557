// SPDX-License-Identifier: Apache-2.0
// Real numbers for a Model: true forward and backward passes, so that training through any Engine
// can be compared with training without one, bit by bit.
//
// The idea: a Model knows names and shapes; the class names say what its modules compute. A
// RealModel turns them into the bodies that TrainingOptions wants, keeps the activations of every
// rank, and makes up its data from a hash. It is for small models: loops in float32, in fixed
// order, without libm, so that every compiler gives the same bits.
//
//   TESSERA_ASSIGN(auto real, RealModel::create(model, {.batch = 2, .sequence_length = 5,
//                                                       .seed = 1, .world_size = 4}));
//   TESSERA_TRY(engine->initialise(real.initial_values()));
//   TrainingOptions options{.batch = 2, .sequence_length = 5, .body = real.bodies()};
//   TESSERA_TRY(run_training_step(*engine, model, options));
//   real.loss();  // cross entropy in nats, mean over ranks and micro-batches
//
// Modules: Linear (weight [out, in], perhaps bias), Conv1D (weight [in, out], perhaps bias),
// Embedding (weight [rows, width]), LayerNorm (weight, perhaps bias; epsilon 1e-5), GELU (the tanh
// form), ReLU, GPT2Attention (causal; Model::attention_heads), GPT2MLP.
//
// The forward list is a chain: every module reads what the one before wrote. A first Embedding
// reads token ids, any other first module floats in [-1, 1). In a GPT2LMHeadModel the second
// embedding reads positions, and embeddings, attention and MLP are summed into the residual stream
// as in the published model; with tied embeddings lm_head uses wte.
//
// Activations are [batch * sequence_length, width]. The loss is the cross entropy of the next token
// if the model reads tokens and its output is as wide as the vocabulary; otherwise the mean square
// distance to targets in [-1, 1).
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "tessera/training.h"

namespace tessera {

struct RealModelOptions {
  std::int64_t batch = 1;            // sequences per rank and micro-batch
  std::int64_t sequence_length = 1;  // rows per sequence
  std::int64_t input_features = 0;   // width of float inputs; 0: what the first module wants
  std::uint64_t seed = 0;            // of data and initial values
  Rank world_size = 1;
  DType half_dtype = DType::bfloat16;  // of parameters that have two bytes an element
  bool same_data_every_step = false;   // one batch again and again: a loss that must fall
  /// That of the TrainingOptions. full: a block forgets all but its last output when forward leaves
  /// it, so that backward depends on the recomputation.
  ActivationCheckpointing checkpointing = ActivationCheckpointing::none;
};

/// A handle: copies, and the functions it returns, share one state and keep it alive. Bodies of
/// different ranks share nothing and may run at the same time.
class RealModel {
 public:
  /// `model` is not needed afterwards.
  /// Fails: not_supported (a module of another class), invalid_argument (widths that do not match,
  /// shapes that do not belong to the class, sizes), naming module and sizes.
  static Result<RealModel> create(const Model& model, const RealModelOptions& options);

  /// For TrainingOptions::body. Rank r's data for an element are a hash of (seed, r, step,
  /// micro-batch, element); the forward pass of micro-batch 0 begins a step.
  /// REQUIRES of the bodies: passes in the order of run_training_step, ranks below world_size,
  /// float32 parameters or such of half_dtype.
  decltype(TrainingOptions::body) bodies() const;

  /// For Engine::initialise: uniform, matrices within 1 / sqrt(last dimension), vectors within 0.1
  /// of one (weights) or zero (biases).
  std::function<float(ParameterId, Numel)> initial_values() const;

  /// Multiplies the gradient of the loss, from the next forward pass on.
  void set_loss_scale(float scale) const;

  /// The losses of `rank`'s youngest step, by micro-batch. REQUIRES: rank < world_size.
  std::span<const float> losses(Rank rank) const;
  /// Their mean over all micro-batches of all ranks that ran here; 0 before the first.
  float loss() const;

 private:
  struct State;
  explicit RealModel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace tessera
