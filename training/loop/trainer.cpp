// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tessera/language_model.h"
#include "tessera/optimizer_state.h"
#include "training/data/samples.h"
#include "training/loop/check_dtypes.h"
#include "training/loop/first_failure.h"
#include "training/loop/loss_sum.h"
#include "training/loop/trainer_state.h"

namespace tessera {
namespace {

Rank count(const Runtime& runtime) { return runtime.world().count(); }

// Weight decay applies to matrices only: biases and norms have few elements, whose size does not
// make a model overfit, and decaying the scale of a norm would shrink its output.
std::vector<ParamGroup> groups_of(const Model& model) {
  ParamGroup matrices;
  ParamGroup vectors{.parameters = {}, .adam = {.weight_decay = 0.0F}};
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const bool decays = model.parameters[p].shape.size() > 1;
    (decays ? matrices : vectors).parameters.push_back(ParameterId{static_cast<std::int32_t>(p)});
  }
  return {matrices, vectors};
}

}  // namespace

struct Trainer::State {
  Runtime& runtime;
  const Model& model;
  const Corpus& corpus;
  const TrainerOptions options;
  Samples samples;
  TrainingOptions step;  // the options of a step, with bodies
  std::unique_ptr<Engine> engine;
  LanguageModel language;
  TrainingSteps steps;
  LossSum loss;                             // on each rank the sum over its micro-batches
  std::unique_ptr<GradScaler> scaler = {};  // only float16
  TrainerPlace place = {};
  float grad_norm = 0;  // the same on every rank
  bool skips = false;   // the step under way, without a scaler
  std::int32_t in_a_row = 0;
  bool has_stepped = false;              // once, in this program
  std::vector<std::string> others = {};  // how this run differs from the one that it goes on with

  mutable FirstFailure unread = {};  // tokens that could not be read

  // The batches of the validation data, in the order of `samples`.
  struct Validation {
    Samples samples;
    std::int64_t batches = 0;
    std::int64_t targets = 0;  // of these batches
  };
  std::optional<Validation> validation = {};
  std::optional<std::int64_t> validating = {};  // the batch of rank 0; empty: training

  Status prepare();
  Status prepare_validation(const ValidationData& data);
  void scale_loss(std::int64_t targets);
  void note_skip(TrainedStep& done);
  Status check(const TrainedStep& done) const;
  void fill(Rank rank, std::int32_t micro_batch, const TokenBatch& tokens) const;
  void read_samples(const Samples& from, const SamplerState& first, const TokenBatch& tokens) const;
  Result<float> mean_loss(std::int64_t targets);
  std::int64_t samples_per_step() const {
    return options.step.batch * options.step.accumulation * count(runtime);
  }
  /// Of all ranks in the step under way, of `places_per_step`.
  std::int64_t targets_of_step() const;
  std::int64_t places_per_step() const { return samples_per_step() * options.step.sequence_length; }
};

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::create(Runtime& runtime, const Model& model,
                                                 const Corpus& corpus,
                                                 const TrainerOptions& options) {
  TESSERA_TRY(options.learning_rate.check());
  TESSERA_TRY(check_dtypes(options, runtime.processor()));
  TESSERA_TRY(check_one_model(options.scheme, count(runtime)));
  const auto data = options.data.empty() ? corpus.ranges() : options.data;
  const std::int64_t length = options.step.sequence_length;
  TESSERA_ASSIGN(Samples samples, Samples::create(corpus, data, length, options.seed));
  const Corpus* const other = options.validation ? options.validation->corpus : nullptr;
  const bool documents = samples.has_documents() ||
                         (other != nullptr && (other->has_documents() || other->border() >= 0));
  const LanguageModelOptions sizes{.batch = options.step.batch,
                                   .sequence_length = length,
                                   .dtype = options.dtype,
                                   .parameters = compute_dtype(options.scheme),
                                   .fp8 = options.fp8,
                                   .documents = documents,
                                   .adapter_scale = options.adapter_scale,
                                   .checkpointing = options.step.checkpointing,
                                   .recompute = options.step.recompute,
                                   .processor = runtime.processor(),
                                   .threads = options.threads,
                                   .progress = options.progress};
  TESSERA_ASSIGN(LanguageModel language, LanguageModel::create(model, sizes));
  TESSERA_ASSIGN(auto engine, make_engine(runtime, model, options.scheme));
  TESSERA_TRY(language.take_workspace(runtime));
  TESSERA_ASSIGN(LossSum loss, LossSum::create(runtime, *engine, language));
  TrainingSteps steps(*engine, model);
  auto state = std::unique_ptr<State>(
      new State{runtime, model, corpus, options, std::move(samples), options.step,
                std::move(engine), std::move(language), std::move(steps), std::move(loss)});
  TESSERA_TRY(state->prepare());
  return std::unique_ptr<Trainer>(new Trainer(std::move(state)));
}

Status Trainer::State::prepare_validation(const ValidationData& data) {
  const Corpus& from = data.corpus == nullptr ? corpus : *data.corpus;
  auto tokens = data.tokens.empty() && data.corpus != nullptr ? from.ranges() : data.tokens;
  for (SampledRange& range : tokens) {
    range.source = from.source(from.file_of(range.tokens.first)) + " (for validation)";
  }
  if (tokens.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: too short to hold a part back for validation", from.source()));
  }
  TESSERA_ASSIGN(Samples samples_of_it,
                 Samples::create(from, tokens, options.step.sequence_length, options.seed));
  const std::int64_t batch = options.step.batch;
  const std::int64_t all = std::max<std::int64_t>(1, samples_of_it.samples() / batch);
  const std::int64_t batches = data.batches == 0 ? all : std::min(all, data.batches);
  validation.emplace(Validation{std::move(samples_of_it), batches});
  const Sampler& order = validation->samples.order();
  for (std::int64_t n = 0; n < validation->batches * batch; ++n) {
    validation->targets += validation->samples.targets(order.after({}, n));
  }
  return {};
}

Status Trainer::State::prepare() {
  if (options.validation) TESSERA_TRY(prepare_validation(*options.validation));
  place.seed = options.seed;
  place.sequence_length = options.step.sequence_length;
  for (const SampledRange& range : options.data) place.tokens += range.tokens.count;
  if (options.data.empty()) place.tokens = corpus.tokens();
  place.fingerprint = corpus.fingerprint();
  language.apply(step);
  language.set_batches([this](Rank rank, std::int32_t micro_batch, const TokenBatch& tokens) {
    fill(rank, micro_batch, tokens);
  });
  if (options.dtype == DType::float16) {
    TESSERA_ASSIGN(scaler, grad_scaler(*engine, {.loss_scale = options.loss_scale.value_or(
                                                     LossScaleOptions{.min_scale = 1})}));
    step.scaler = scaler.get();
  }
  step.grad_norm = [this](Rank, float norm) { grad_norm = norm; };
  if (!scaler) step.skipped = [this] { skips = true; };
  TESSERA_TRY(keep_optimizer_states_as(*engine, options.step.adam.state_type));
  if (!options.decay_all) TESSERA_TRY(engine->set_param_groups(groups_of(model)));
  return engine->initialise(language.initial_values(options.seed));
}

std::int64_t Trainer::State::targets_of_step() const {
  if (!samples.packing()) return places_per_step();
  std::int64_t sum = 0;
  for (std::int64_t n = 0; n < samples_per_step(); ++n) {
    sum += samples.targets(samples.order().after(place.sampler, n));
  }
  return sum;
}

// The reduction of gradients averages over ranks, but adds up micro-batches. Scaling the loss makes
// that a mean over micro-batches as well. A power of two of them only changes exponents, so that
// one rank with four micro-batches has the bits of four ranks with one. Places without a target do
// not count: each that has one weighs the same, on whatever rank it is.
void Trainer::State::scale_loss(std::int64_t targets) {
  const float scale = scaler ? scaler->scale() : 1.0F;
  const float counted = static_cast<float>(places_per_step()) / static_cast<float>(targets);
  language.set_loss_scale(scale / static_cast<float>(options.step.accumulation) * counted);
}

void Trainer::State::note_skip(TrainedStep& done) {
  if (scaler) {
    done.skipped = scaler->skipped();
    place.loss_scale = scaler->state();
  } else {
    done.skipped = skips;
    in_a_row = skips ? in_a_row + 1 : 0;
    has_stepped = has_stepped || !skips;
  }
  place.skipped_steps += done.skipped ? 1 : 0;
  done.skipped_steps = place.skipped_steps;
}

// What goes on although a loss or a norm is no number would only waste time.
Status Trainer::State::check(const TrainedStep& done) const {
  const auto failed = [](const std::string& text) { return Status(Code::invalid_argument, text); };
  const bool finite = std::isfinite(done.loss);
  if (!scaler && in_a_row > 0 && in_a_row >= options.skips_in_a_row) {
    return failed(
        fmt::format("the gradients of {} steps in a row, the last of them step {}, were "
                    "no finite numbers (loss {}, norm {}): lower the learning rate, or "
                    "look at the data of epoch {}",
                    in_a_row, done.step, done.loss, done.grad_norm, place.sampler.epoch));
  }
  const bool hopeless = !scaler && !has_stepped;  // so are the weights, or all data
  if (finite || (done.skipped && !hopeless)) return {};
  return failed(
      fmt::format("the loss of step {} is {}: lower the learning rate, clip the "
                  "gradients' norm, or look at the data of epoch {}",
                  done.step, done.loss, place.sampler.epoch));
}

void Trainer::State::read_samples(const Samples& from, const SamplerState& first,
                                  const TokenBatch& tokens) const {
  const auto length = static_cast<std::size_t>(options.step.sequence_length);
  for (std::int64_t b = 0; b < options.step.batch; ++b) {
    const TokenBatch into = tokens.part(static_cast<std::size_t>(b) * length, length);
    const Status read = from.read(from.order().after(first, b), into);
    if (!read.ok()) unread.note(read);  // the step fails when its bodies have run
  }
}

void Trainer::State::fill(Rank rank, std::int32_t micro_batch, const TokenBatch& tokens) const {
  // Both orders depend on ranks only through the place of a micro-batch, k * world + rank, so any
  // number of ranks takes the same samples.
  const std::int64_t batch = options.step.batch;
  TESSERA_ASSERT(rank >= 0 && rank < count(runtime), "a rank of the world asks for its tokens");
  if (validating) {
    const Samples& from = validation->samples;
    return read_samples(from, from.order().after({}, (*validating + rank) * batch), tokens);
  }
  const std::int64_t first =
      (static_cast<std::int64_t>(micro_batch) * count(runtime) + rank) * batch;
  read_samples(samples, samples.order().after(place.sampler, first), tokens);
}

// Each rank adds its micro-batches, then all ranks add in rank order: one rank with four
// micro-batches rounds as four ranks with one.
Result<float> Trainer::State::mean_loss(std::int64_t targets) {
  TESSERA_ASSIGN(const PerRank<float> sums, loss.read());
  float total = 0;
  for (Rank rank = 0; rank < count(runtime); ++rank) total += sums[rank];
  const float counted = static_cast<float>(places_per_step()) / static_cast<float>(targets);
  return total / static_cast<float>(count(runtime) * options.step.accumulation) * counted;
}

// Losses are added in the order of batches, whichever rank computed them, so any number of ranks
// finds the same bits. In the last round ranks without a batch compute one that is not counted:
// collectives need all ranks.
Result<float> Trainer::validate() {
  State& s = *state_;
  if (!s.validation) {
    return Status(Code::invalid_argument,
                  "there are no validation data: set TrainerOptions::validation");
  }
  struct Reset {  // also after a failure: the next step must not train on validation data
    std::optional<std::int64_t>& validating;
    ~Reset() { validating.reset(); }
  } const reset{s.validating};
  TrainingOptions evaluation = s.step;
  evaluation.passes = {{.kind = TrainingPass::Kind::evaluate, .graph = {}}};
  float total = 0;
  for (std::int64_t first = 0; first < s.validation->batches; first += count(s.runtime)) {
    s.validating = first;
    TESSERA_TRY(s.steps.run(evaluation));
    TESSERA_ASSIGN(const PerRank<float> losses, s.loss.read());
    TESSERA_TRY(s.unread.status());
    for (Rank rank = 0; rank < count(s.runtime); ++rank) {
      if (first + rank < s.validation->batches) total += losses[rank];
    }
  }
  const auto places = static_cast<float>(s.validation->batches * s.options.step.batch *
                                         s.options.step.sequence_length);
  return total / static_cast<float>(s.validation->batches) *
         (places / static_cast<float>(s.validation->targets));
}

Result<TrainedStep> Trainer::step() {
  State& s = *state_;
  TrainedStep done{.step = s.place.step + 1, .tokens = tokens_per_step()};
  done.learning_rate = s.options.learning_rate.at(s.place.step);
  s.step.adam.learning_rate = done.learning_rate;
  if (s.scaler) done.loss_scale = s.scaler->scale();
  done.targets = s.targets_of_step();
  s.scale_loss(done.targets);
  s.language.set_dropout(s.options.seed, s.place.step);
  TESSERA_ASSERT(!s.validating, "no validation is under way");
  s.skips = false;
  TESSERA_TRY(s.steps.run(s.step));
  TESSERA_ASSIGN(done.loss, s.mean_loss(done.targets));
  TESSERA_TRY(s.unread.status());
  s.note_skip(done);
  done.grad_norm = s.grad_norm;
  // A skipped step has used its samples: the sampler moves on, so that a resumed run sees the same.
  s.place.sampler = s.samples.order().after(s.place.sampler, s.samples_per_step());
  ++s.place.step;
  TESSERA_TRY(s.check(done));
  return done;
}

std::int64_t Trainer::steps_done() const { return state_->place.step; }

std::int64_t Trainer::tokens_per_step() const { return state_->places_per_step(); }

std::optional<PackedDocuments> Trainer::packed() const {
  const auto& packing = state_->samples.packing();
  if (!packing) return {};
  PackedDocuments out{.samples = packing->samples(),
                      .cut = packing->cut_documents(),
                      .left_out = packing->left_out_documents()};
  for (std::int64_t sample = 0; sample < out.samples; ++sample) {
    out.targets += packing->targets(sample);
    for (const PackedPiece& piece : packing->pieces(sample)) out.places += piece.places;
  }
  return out;
}

std::int64_t Trainer::samples_per_epoch() const { return state_->samples.samples(); }

std::int64_t Trainer::validation_batches() const {
  return state_->validation ? state_->validation->batches : 0;
}

std::vector<std::string> Trainer::warnings(std::int64_t steps) const {
  const std::int64_t left = std::max<std::int64_t>(steps - state_->place.step, 0);
  const std::int64_t per_step = state_->samples_per_step();
  auto sentences = state_->samples.warnings(state_->place.sampler, left * per_step);
  sentences.insert(sentences.begin(), state_->others.begin(), state_->others.end());
  if (left == 0 || per_step <= samples_per_epoch()) return sentences;
  sentences.push_back(
      fmt::format("a step takes {} samples, but {} has {}: a step sees some of them several times",
                  per_step, state_->corpus.source(), samples_per_epoch()));
  return sentences;
}

std::string_view Trainer::scheme() const { return name_of(state_->options.scheme); }

std::function<float(ParameterId, Numel)> Trainer::initial_values() const {
  return state_->language.initial_values(state_->options.seed);
}

Engine& Trainer::engine() { return *state_->engine; }

std::map<std::string, std::string> Trainer::state() const {
  return {{"trainer", to_json(state_->place)}};
}

Status Trainer::resume(const std::map<std::string, std::string>& state, bool anyway) {
  const auto found = state.find("trainer");
  if (found == state.end()) {
    return Status(Code::corrupt, "no state of a trainer: this was not saved by tessera train");
  }
  TESSERA_ASSIGN(const TrainerPlace place, trainer_place(found->second));
  const auto others = differences(place, state_->place, state_->corpus.source());
  if (!anyway && !others.empty()) return refused(others);
  TESSERA_TRY(state_->samples.order().check(place.sampler));
  state_->others = others;
  state_->place.step = place.step;
  state_->place.sampler = place.sampler;
  state_->place.loss_scale = place.loss_scale;
  state_->place.skipped_steps = place.skipped_steps;
  if (state_->scaler && place.loss_scale) state_->scaler->load(*place.loss_scale);
  return {};
}

void Trainer::begin_after(std::int64_t step) { state_->place.step = step; }

Status Trainer::finish() {
  TESSERA_TRY(state_->loss.release());
  return state_->language.release();
}

}  // namespace tessera
