// SPDX-License-Identifier: Apache-2.0
// GPT-2 and Llama with real numbers, fast: the bodies with which a training program trains a Model
// on CPUs or GPUs, and with which a numeric simulator computes the same bits as CPUs.
//
// The idea: modules share a residual stream, which lies in a workspace taken from the runtime once;
// everything else that a pass needs comes from the runtime, too, as what the module saves or as
// temporary memory. So the peak of a simulated run is the peak of the real one. CPUs multiply
// matrices by oneDNN (what that packs inside of a call is its own), the rest are loops without
// libm; GPUs multiply them by cuBLASLt, the rest are kernels of the project's own.
//
//   TESSERA_ASSIGN(auto language, LanguageModel::create(model, {.batch = 8,
//                                                       .sequence_length = 128}));
//   TESSERA_ASSIGN(auto engine, make_engine(runtime, model, scheme));
//   TESSERA_TRY(language.take_workspace(runtime));
//   language.set_data(fill);
//   TESSERA_TRY(engine->initialise(language.initial_values(seed)));
//   TrainingOptions options;
//   language.apply(options);
//   TESSERA_TRY(run_training_step(*engine, model, options));
//   language.losses(0);
//
// Equal inputs give equal bits, every time. Another number of threads or another processor may give
// other bits, because oneDNN may add in another order.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/token_batch.h"
#include "tessera/training.h"

namespace tessera {

struct LanguageModelOptions {
  std::int64_t batch = 1;            // sequences per rank and micro-batch
  std::int64_t sequence_length = 1;  // tokens per sequence
  /// The dtype of matrices and saved activations: float32, bfloat16, or float16, whose gradients
  /// need a loss scale. Sums, norms and the residual stream are float32.
  DType dtype = DType::float32;
  /// The dtype of the parameters that the engine gives to bodies: that in which the scheme gathers
  /// them. Parameters of another dtype than `dtype` are converted, which takes temporary memory.
  DType parameters = DType::float32;
  /// The linear layers of blocks, forward and backward, multiply operands of 8 bits (e4m3) with a
  /// scale for each 128 numbers along the sum, and for each 128 x 128 of a weight. Sums, biases,
  /// what is kept for backward, embeddings, the head, attention and adapters are as without. On
  /// GPUs their sizes and the tokens of a batch must be multiples of 16.
  bool fp8 = false;
  /// Sequences may hold several documents and places without a target (TokenBatch). On CPUs only.
  bool documents = false;
  /// Passes that train drop what Model::mathematics says, and `set_dropout` says which elements.
  /// Those that evaluate drop none. On CPUs only.
  bool dropout = true;
  float adapter_scale = 1;  // LoraOptions::scale, of a model with adapters (tessera/lora.h)
  ActivationCheckpointing checkpointing = ActivationCheckpointing::none;
  /// What of blocks backward computes again, with the same bits; not beside `checkpointing`. What
  /// norms return is computed again in float32 on CPUs alone: from halves it cannot be, and ffn and
  /// attention keep it there.
  Recompute recompute = {};
  Processor processor = Processor::cpu;  // Runtime::processor
  int threads = 0;                       // of this rank; 0: as many as it may use
  std::function<void()> progress = {};   // called within long bodies: ProcessRuntime::poll
};

/// A handle: copies, and the functions it returns, share one state and keep it alive.
class LanguageModel {
 public:
  /// `model` comes from load_model, its parameters being float32 or what the scheme makes of them;
  /// it is not needed afterwards. Takes no memory of a runtime.
  /// Fails: not_supported (on CPUs built without oneDNN; on GPUs heads of more than 128, documents;
  /// another architecture; an unknown kind of rotary embedding; dropout on GPUs; recompute.norm
  /// where norms are not computed again), invalid_argument (sizes; two halves; recompute of what is
  /// checkpointed).
  static Result<LanguageModel> create(const Model& model, const LanguageModelOptions& options);

  /// Before training, once. Call it when the engine exists: the workspace belongs to the first
  /// stream of the runtime, which must outlive it. Fails: out_of_memory.
  Status take_workspace(Runtime& runtime) const;
  /// Gives the workspace back, after everything that was submitted. Nothing runs afterwards.
  Status release() const;

  /// Sets batch, sequence_length, checkpointing, recompute, body, on_device, repeated and memory.
  void apply(TrainingOptions& options) const;

  /// The tokens of a micro-batch: fill(rank, micro_batch, tokens), with sequence_length + 1 of them
  /// per sequence. REQUIRES: below the size of the vocabulary.
  void set_data(std::function<void(Rank, std::int32_t, std::span<std::int32_t>)> fill) const;
  /// Instead: fill(rank, micro_batch, tokens), sequence_length places per sequence. Without
  /// LanguageModelOptions::documents every place has a target and every begin is 0.
  void set_batches(std::function<void(Rank, std::int32_t, const TokenBatch&)> fill) const;

  /// Which elements a model with dropout drops, from the next forward pass on: it follows from
  /// these numbers and from that of a sequence within the step. Sequences of a rank come behind
  /// those of the ranks before and of all micro-batches before, so a step may be divided otherwise.
  void set_dropout(std::uint64_t seed, std::int64_t step) const;

  /// Multiplies the gradient of the loss, from the next forward pass on.
  void set_loss_scale(float scale) const;

  /// For Engine::initialise, from a hash of (seed, parameter, element): as GPT-2, matrices have a
  /// deviation of 0.02, those that write to the residual stream of 0.02 / sqrt(2 blocks); norms are
  /// 1, biases 0.
  std::function<float(ParameterId, Numel)> initial_values(std::uint64_t seed) const;

  /// The losses of `rank`'s youngest step, by micro-batch: nats, mean over all places, of which
  /// those without a target count 0. After a pass that evaluates, its own. REQUIRES: the host has
  /// waited for it.
  std::span<const float> losses(Rank rank) const;

 private:
  struct State;
  explicit LanguageModel(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace tessera
