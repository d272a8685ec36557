// SPDX-License-Identifier: Apache-2.0
// The loss of a language model on whole corpora, by forward passes through an engine.
//
// The idea: every token that can be foretold is foretold once, whatever batch and number of ranks.
// Windows follow each other from the first token of a file, the last one is short, and documents
// are packed as in training. Batch b is rank b % world's, and losses are added in the order of
// batches, so any number of ranks finds the same bits.
//
//   TESSERA_ASSIGN(auto evaluator, Evaluator::create(*runtime, model, {.scheme = scheme}));
//   TESSERA_TRY(import_weights(evaluator->engine(), "model.safetensors"));
//   TESSERA_ASSIGN(const Evaluation found, evaluator->evaluate(corpus));
//   ... std::exp(found.loss) ...                // its perplexity
//   TESSERA_TRY(evaluator->finish());
//   TESSERA_TRY(runtime->finish());             // before the evaluator goes
//
// Memory is that of the parameters, of one unit's gathered ones, and of one forward pass.
#pragma once

#include <functional>
#include <memory>

#include "tessera/corpus.h"
#include "tessera/scheme.h"

namespace tessera {

struct EvaluatorOptions {
  Scheme scheme = {};
  std::int64_t batch = 1;               // sequences of a pass, per rank
  std::int64_t sequence_length = 1;     // tokens that a token may depend on, itself included
  DType dtype = DType::float32;         // of the passes: float32, bfloat16 or float16
  int threads = 0;                      // of the kernels; 0: their default
  std::function<void()> progress = {};  // called while modules compute: ProcessRuntime::poll
};

struct Evaluation {
  double loss = 0;           // nats per target
  std::int64_t targets = 0;  // tokens that were foretold
};

class Evaluator {
 public:
  /// All arguments must outlive it. Its engine's parameters have no values yet.
  /// Fails: as Trainer::create; not_supported on GPUs.
  static Result<std::unique_ptr<Evaluator>> create(Runtime& runtime, const Model& model,
                                                   const EvaluatorOptions& options);
  ~Evaluator();

  Engine& engine();
  /// On all ranks; stops the host. Fails: invalid_argument (nothing to foretell, tokens beyond the
  /// vocabulary, a loss that is no number), io_error, what the engine fails with.
  Result<Evaluation> evaluate(const Corpus& corpus);
  /// Gives its memory back. Call it at the end.
  Status finish();

 private:
  struct State;
  explicit Evaluator(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tessera
