// SPDX-License-Identifier: Apache-2.0
// Trains a language model on a corpus: the loop around model, scheme, data and schedule.
//
// The idea: the same program on every runtime. One process, four processes through MPI, or a
// simulator of four ranks with real numbers take the same samples in the same order and add
// gradients in the same order, so they find the same losses, bit by bit. Sample m of a step is
// sequence `m % batch` of micro-batch `m / batch`, and micro-batch k * world + r is rank r's k-th:
// what four ranks do at once, one rank does in four.
//
//   TESSERA_ASSIGN(const Corpus corpus, Corpus::open("book.txt", {.vocabulary = 256}));
//   TrainerOptions options{.scheme = FullyShardOptions{.param_dtype = DType::float32}};
//   options.step.batch = 8, options.step.sequence_length = 128;
//   TESSERA_ASSIGN(auto trainer, Trainer::create(*runtime, model, corpus, options));
//   while (trainer->steps_done() < 1000) {
//     TESSERA_ASSIGN(const TrainedStep step, trainer->step());
//     ... step.loss ...
//   }
//   TESSERA_TRY(trainer->finish());
//   TESSERA_TRY(runtime->finish());           // before the trainer goes
//
// `validate` finds the same on any number of ranks, too: batch b of the validation data is rank
// b % world's.
//
// A corpus of documents is packed into sequences; each place that is learned weighs the same, so
// ranks and micro-batches with few of them count less.
//
// Bit for bit holds without clipping, whose norm is a sum over shards, and if the number of
// micro-batches per step is a power of two.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/corpus.h"
#include "tessera/learning_rate.h"
#include "tessera/sampler.h"
#include "tessera/scheme.h"
#include "tessera/training.h"

namespace tessera {

/// Tokens that are never trained on.
struct ValidationData {
  const Corpus* corpus = nullptr;  // must outlive the trainer; none: the one that is trained on
  std::vector<SampledRange> tokens = {};  // of it; none: all of another corpus
  /// How many batches `validate` looks at, of all ranks together, at most as many as there are; 0:
  /// all of them. The same ones every time, on any number of ranks.
  std::int64_t batches = 16;
};

struct TrainerOptions {
  Scheme scheme = {};
  /// Sizes, accumulation, checkpointing, AdamW, clipping. What computes is the trainer's.
  TrainingOptions step = {};
  DType dtype = DType::float32;  // of forward and backward: float32, bfloat16, float16
  bool fp8 = false;              // LanguageModelOptions::fp8
  /// float16 only: what the loss is multiplied by; none: {.min_scale = 1}. Steps whose gradients
  /// overflow are skipped.
  std::optional<LossScaleOptions> loss_scale = {};
  LearningRate learning_rate = {};      // instead of step.adam's
  float adapter_scale = 1;              // LoraOptions::scale, of a model with adapters
  std::uint64_t seed = 0;               // of initial values and of the order of samples
  int threads = 0;                      // of the kernels; 0: their default
  std::vector<SampledRange> data = {};  // of the corpus; none: Corpus::ranges
  std::optional<ValidationData> validation = {};
  /// A step whose gradients' norm is no finite number is skipped by all ranks; so many in a row end
  /// the run. With float16 the loss scale decides instead.
  std::int32_t skips_in_a_row = 10;
  bool decay_all = false;               // weight decay of vectors, too, such as biases and norms
  std::function<void()> progress = {};  // called while modules compute: ProcessRuntime::poll
};

/// The figures of a step, which are the same on every rank.
struct TrainedStep {
  std::int64_t step = 0;  // counted from 1
  float loss = 0;         // nats, the mean of all tokens of all ranks that are learned
  float grad_norm = 0;    // of all gradients, before clipping
  float learning_rate = 0;
  std::int64_t tokens = 0;               // of all ranks
  std::int64_t targets = 0;              // of these, those whose loss counts
  std::optional<float> loss_scale = {};  // float16: of this step
  bool skipped = false;                  // gradients were no finite numbers, so nothing was learned
  std::int64_t skipped_steps = 0;        // of the whole run so far
};

/// The documents of the training data in sequences of one length.
struct PackedDocuments {
  std::int64_t samples = 0;   // sequences
  std::int64_t places = 0;    // of these that are not empty
  std::int64_t targets = 0;   // that are learned
  std::int64_t cut = 0;       // documents that are longer than a sequence
  std::int64_t left_out = 0;  // in which nothing is learned
};

class Trainer {
 public:
  /// Makes the engine and fills its parameters from the seed. All arguments must outlive the
  /// trainer. Fails: invalid_argument (sizes, the schedule, too little data, ranks that would train
  /// models apart), not_supported (the model, a dtype), and what make_engine fails with.
  static Result<std::unique_ptr<Trainer>> create(Runtime& runtime, const Model& model,
                                                 const Corpus& corpus,
                                                 const TrainerOptions& options);
  ~Trainer();

  /// One step. Stops the host until it is done. Fails: what the engine fails with;
  /// invalid_argument, naming the step, if the loss is no number although gradients are, or before
  /// any step of this program could be taken; if too many steps in a row were skipped; and if
  /// gradients overflow at the smallest loss scale. The weights are those of the last step that was
  /// not skipped.
  Result<TrainedStep> step();

  /// The mean loss of the validation data, in nats per token, by forward passes that keep nothing:
  /// training goes on as if nothing had run. Between two steps, on all ranks; stops the host.
  /// Fails: invalid_argument (there are no validation data), what the engine fails with.
  Result<float> validate();

  std::int64_t steps_done() const;
  std::int64_t tokens_per_step() const;  // of all ranks
  /// The number of samples in an epoch of the training data.
  std::int64_t samples_per_epoch() const;
  /// None, unless the corpus consists of documents.
  std::optional<PackedDocuments> packed() const;
  /// That `validate` looks at; 0: there are no validation data.
  std::int64_t validation_batches() const;
  /// What a run up to `steps` steps does not do with its data as one may expect, a sentence each:
  /// other data than those of the run that was resumed anyway, files of several that it never
  /// draws, weights that it cannot follow, steps larger than an epoch.
  std::vector<std::string> warnings(std::int64_t steps) const;
  Engine& engine();
  /// What the parameters began with.
  std::function<float(ParameterId, Numel)> initial_values() const;
  std::string_view scheme() const;

  /// The progress of the run (step, sampler, loss scale), which a checkpoint keeps besides the
  /// engine's tensors. Call it between two steps.
  std::map<std::string, std::string> state() const;
  /// Continues from a `state`, perhaps on another number of ranks. Fails: corrupt (not such a
  /// state), invalid_argument (other data, seed or sequence length, unless `anyway`: then
  /// `warnings` says it), naming both.
  Status resume(const std::map<std::string, std::string>& state, bool anyway = false);
  /// Continues what another program has trained for `step` steps: the learning rate goes on there,
  /// samples begin with the first. Before the first step.
  void begin_after(std::int64_t step);

  /// Gives the trainer's memory back. Call it after the last step.
  Status finish();

 private:
  struct State;
  explicit Trainer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tessera
