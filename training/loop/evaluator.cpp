// SPDX-License-Identifier: Apache-2.0
#include "tessera/evaluator.h"

#include <fmt/format.h>

#include <cmath>

#include "tessera/language_model.h"
#include "training/data/samples.h"
#include "training/loop/first_failure.h"
#include "training/loop/loss_sum.h"

namespace tessera {

struct Evaluator::State {
  Runtime& runtime;
  const EvaluatorOptions options;
  LanguageModel language;
  std::unique_ptr<Engine> engine;
  TrainingSteps steps;
  LossSum loss;
  TrainingOptions step = {};
  FirstFailure unread = {};
  // The corpus that is looked at, and the batch of rank 0.
  std::optional<Samples> samples = {};
  std::int64_t first = 0;

  Rank ranks() const { return runtime.world().count(); }
  void fill(Rank rank, const TokenBatch& tokens);
};

Evaluator::Evaluator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Evaluator::~Evaluator() = default;

Engine& Evaluator::engine() { return *state_->engine; }

Result<std::unique_ptr<Evaluator>> Evaluator::create(Runtime& runtime, const Model& model,
                                                     const EvaluatorOptions& options) {
  TESSERA_ASSIGN(LanguageModel language,
                 LanguageModel::create(model, {.batch = options.batch,
                                               .sequence_length = options.sequence_length,
                                               .dtype = options.dtype,
                                               .parameters = compute_dtype(options.scheme),
                                               .documents = true,
                                               .dropout = false,
                                               .processor = runtime.processor(),
                                               .threads = options.threads,
                                               .progress = options.progress}));
  TESSERA_ASSIGN(auto engine, make_engine(runtime, model, options.scheme));
  TESSERA_TRY(language.take_workspace(runtime));
  TESSERA_ASSIGN(LossSum loss, LossSum::create(runtime, *engine, language));
  TrainingSteps steps(*engine, model);
  auto state = std::unique_ptr<State>(new State{
      runtime, options, std::move(language), std::move(engine), std::move(steps), std::move(loss)});
  State* const own = state.get();
  own->language.apply(own->step);
  own->step.passes = {{.kind = TrainingPass::Kind::evaluate, .graph = {}}};
  own->language.set_batches(
      [own](Rank rank, std::int32_t, const TokenBatch& tokens) { own->fill(rank, tokens); });
  return std::unique_ptr<Evaluator>(new Evaluator(std::move(state)));
}

// Ranks without a batch in the last round compute one that counts nothing: collectives need all.
void Evaluator::State::fill(Rank rank, const TokenBatch& tokens) {
  const auto length = static_cast<std::size_t>(options.sequence_length);
  for (std::int64_t b = 0; b < options.batch; ++b) {
    const std::int64_t number = (first + rank) * options.batch + b;
    const TokenBatch into = tokens.part(static_cast<std::size_t>(b) * length, length);
    Samples::clear(into);
    if (number >= samples->samples()) continue;
    const Status read = samples->read({.position = number}, into);
    if (read.ok()) continue;
    Samples::clear(into);
    unread.note(read);
  }
}

Result<Evaluation> Evaluator::evaluate(const Corpus& corpus) {
  State& s = *state_;
  TESSERA_ASSIGN(s.samples, Samples::in_order(corpus, s.options.sequence_length));
  const std::int64_t batches = (s.samples->samples() + s.options.batch - 1) / s.options.batch;
  const auto places = static_cast<double>(s.options.batch * s.options.sequence_length);
  Evaluation found;
  for (std::int64_t n = 0; n < s.samples->samples(); ++n) {
    found.targets += s.samples->targets({.position = n});
  }
  double total = 0;
  for (s.first = 0; s.first < batches; s.first += s.ranks()) {
    TESSERA_TRY(s.steps.run(s.step));
    TESSERA_ASSIGN(const PerRank<float> losses, s.loss.read());
    TESSERA_TRY(s.unread.status());
    for (Rank rank = 0; rank < s.ranks() && s.first + rank < batches; ++rank) {
      total += static_cast<double>(losses[rank]) * places;
    }
  }
  found.loss = total / static_cast<double>(found.targets);
  if (std::isfinite(found.loss)) return found;
  return Status(Code::invalid_argument,
                fmt::format("{}: its loss is {}: the weights are damaged, or those of a run that "
                            "has diverged",
                            corpus.source(), found.loss));
}

Status Evaluator::finish() {
  TESSERA_TRY(state_->loss.release());
  return state_->language.release();
}

}  // namespace tessera
