// SPDX-License-Identifier: Apache-2.0
#include "tessera/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "engine/numbers/number.h"
#include "tessera/language_model.h"
#include "tessera/math_arrays.h"
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

Status check_dtypes(const TrainerOptions& options) {
  const DType gathered = compute_dtype(options.scheme);
  if (!kernels::is_computed(options.dtype)) {
    return Status(
        Code::not_supported,
        fmt::format("training in {} is not supported: choose float32, bfloat16 or float16",
                    name_of(options.dtype)));
  }
  if (options.loss_scale && options.dtype != DType::float16) {
    return Status(
        Code::invalid_argument,
        fmt::format("TrainerOptions::loss_scale is for float16 alone, but modules compute "
                    "in {}: leave it unset",
                    name_of(options.dtype)));
  }
  if (gathered == DType::float32 || gathered == options.dtype) return {};
  return Status(Code::invalid_argument,
                fmt::format("{} gathers parameters in {}, but modules compute in {}: choose one "
                            "dtype for both",
                            name_of(options.scheme), name_of(gathered), name_of(options.dtype)));
}

// A run goes on where it was only if samples have the same order: the same seed, tokens and length.
Status check_same_order(const TrainerPlace& saved, const TrainerPlace& now,
                        const std::string& source) {
  const auto differ = [](const char* what, auto then, auto here) {
    return Status(Code::invalid_argument,
                  fmt::format("the run to resume has {} {}, this one {}: use the same, or resume "
                              "anyway if another order of samples is meant",
                              what, then, here));
  };
  if (saved.seed != now.seed) return differ("seed", saved.seed, now.seed);
  if (saved.fingerprint == 0) return {};  // a checkpoint of 0.1, which says nothing of its data
  if (saved.sequence_length != now.sequence_length) {
    return differ("sequence length", saved.sequence_length, now.sequence_length);
  }
  if (saved.tokens != now.tokens) return differ("tokens to train on:", saved.tokens, now.tokens);
  if (saved.fingerprint == now.fingerprint) return {};
  return Status(Code::invalid_argument,
                fmt::format("{}: has other tokens than the data of the run to resume: use the same "
                            "file, or resume anyway if other data are meant",
                            source));
}

}  // namespace

struct Trainer::State {
  Runtime& runtime;
  const Model& model;
  const Corpus& corpus;
  const TrainerOptions options;
  Sampler sampler;
  TrainingOptions step;  // the options of a step, with bodies
  std::unique_ptr<Engine> engine;
  LanguageModel language;
  TrainingSteps steps;
  std::unique_ptr<GradScaler> scaler = {};  // only float16
  TrainerPlace place = {};
  BufferId loss = {};  // on each rank the sum over its micro-batches
  EventId loss_written = {};
  float grad_norm = 0;  // the same on every rank
  bool skips = false;   // the step under way, without a scaler
  std::int32_t in_a_row = 0;
  bool has_stepped = false;  // once, in this program

  mutable std::mutex reading;  // bodies of several ranks may run at the same time
  mutable Status unread;       // the first tokens that could not be read

  Status unread_tokens() const {
    const std::lock_guard lock(reading);
    return unread;
  }

  // The batches of the validation data, in the order of `sampler`.
  struct Validation {
    const Corpus& corpus;
    Sampler sampler;
    std::int64_t batches = 0;
  };
  std::optional<Validation> validation = {};
  std::optional<std::int64_t> validating = {};  // the batch of rank 0; empty: training

  Status prepare();
  Status prepare_validation(const ValidationData& data);
  void scale_loss();
  void note_skip(TrainedStep& done);
  Status check(const TrainedStep& done) const;
  void fill(Rank rank, std::int32_t micro_batch, std::span<std::int32_t> tokens) const;
  void read_samples(const Corpus& from, const Sampler& order, const SamplerState& first,
                    std::span<std::int32_t> tokens) const;
  Result<PerRank<float>> summed_losses();
  Result<float> mean_loss();
  std::int64_t samples_per_step() const {
    return options.step.batch * options.step.accumulation * count(runtime);
  }
};

Trainer::Trainer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Trainer::~Trainer() = default;

Result<std::unique_ptr<Trainer>> Trainer::create(Runtime& runtime, const Model& model,
                                                 const Corpus& corpus,
                                                 const TrainerOptions& options) {
  TESSERA_TRY(options.learning_rate.check());
  TESSERA_TRY(check_dtypes(options));
  const auto data = options.data.empty() ? corpus.ranges() : options.data;
  const std::int64_t length = options.step.sequence_length;
  TESSERA_ASSIGN(const Sampler sampler,
                 Sampler::create(corpus.source(), data, length, options.seed));
  const LanguageModelOptions sizes{.batch = options.step.batch,
                                   .sequence_length = length,
                                   .dtype = options.dtype,
                                   .parameters = compute_dtype(options.scheme),
                                   .checkpointing = options.step.checkpointing,
                                   .processor = runtime.processor(),
                                   .threads = options.threads,
                                   .progress = options.progress};
  TESSERA_ASSIGN(LanguageModel language, LanguageModel::create(model, sizes));
  TESSERA_ASSIGN(auto engine, make_engine(runtime, model, options.scheme));
  TESSERA_TRY(language.take_workspace(runtime));
  TrainingSteps steps(*engine, model);
  auto state =
      std::unique_ptr<State>(new State{runtime, model, corpus, options, sampler, options.step,
                                       std::move(engine), std::move(language), std::move(steps)});
  TESSERA_TRY(state->prepare());
  return std::unique_ptr<Trainer>(new Trainer(std::move(state)));
}

Status Trainer::State::prepare_validation(const ValidationData& data) {
  const Corpus& from = data.corpus == nullptr ? corpus : *data.corpus;
  const auto tokens = data.tokens.empty() && data.corpus != nullptr ? from.ranges() : data.tokens;
  if (tokens.empty()) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: too short to hold a part back for validation", from.source()));
  }
  TESSERA_ASSIGN(const Sampler order,
                 Sampler::create(fmt::format("{} (for validation)", from.source()), tokens,
                                 options.step.sequence_length, options.seed));
  const std::int64_t all = std::max<std::int64_t>(1, order.samples() / options.step.batch);
  validation.emplace(Validation{from, order, data.batches == 0 ? all : data.batches});
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
  language.set_data([this](Rank rank, std::int32_t micro_batch, std::span<std::int32_t> tokens) {
    fill(rank, micro_batch, tokens);
  });
  if (options.dtype == DType::float16) {
    TESSERA_ASSIGN(scaler, grad_scaler(*engine, {.loss_scale = options.loss_scale.value_or(
                                                     LossScaleOptions{.min_scale = 1})}));
    step.scaler = scaler.get();
  }
  step.grad_norm = [this](Rank, float norm) { grad_norm = norm; };
  if (!scaler) step.skipped = [this] { skips = true; };
  if (!options.decay_all) TESSERA_TRY(engine->set_param_groups(groups_of(model)));
  TESSERA_TRY(engine->initialise(language.initial_values(options.seed)));
  TESSERA_ASSIGN(loss, runtime.allocate({.bytes = size_of(DType::float32),
                                         .memory_class = MemoryClass::buffers,
                                         .stream = engine->compute_stream(),
                                         .where = runtime.world(),
                                         .cause = {},
                                         .name = "trainer.loss",
                                         .directory = {}}));
  return {};
}

// The reduction of gradients averages over ranks, but adds up micro-batches. Scaling the loss makes
// that a mean over micro-batches as well. A power of two of them only changes exponents, so that
// one rank with four micro-batches has the bits of four ranks with one.
void Trainer::State::scale_loss() {
  const float scale = scaler ? scaler->scale() : 1.0F;
  language.set_loss_scale(scale / static_cast<float>(options.step.accumulation));
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

void Trainer::State::read_samples(const Corpus& from, const Sampler& order,
                                  const SamplerState& first, std::span<std::int32_t> tokens) const {
  const auto length = static_cast<std::size_t>(options.step.sequence_length + 1);
  for (std::int64_t b = 0; b < options.step.batch; ++b) {
    const auto into = tokens.subspan(static_cast<std::size_t>(b) * length, length);
    const Status read = from.read(order.first_token(order.after(first, b)), into);
    if (read.ok()) continue;
    std::fill(into.begin(), into.end(), 0);  // the step fails when its bodies have run
    const std::lock_guard lock(reading);
    if (unread.ok()) unread = read;
  }
}

void Trainer::State::fill(Rank rank, std::int32_t micro_batch,
                          std::span<std::int32_t> tokens) const {
  // Both orders depend on ranks only through the place of a micro-batch, k * world + rank, so any
  // number of ranks takes the same samples.
  const std::int64_t batch = options.step.batch;
  TESSERA_ASSERT(rank >= 0 && rank < count(runtime), "a rank of the world asks for its tokens");
  if (validating) {
    const Sampler& order = validation->sampler;
    return read_samples(validation->corpus, order, order.after({}, (*validating + rank) * batch),
                        tokens);
  }
  const std::int64_t first =
      (static_cast<std::int64_t>(micro_batch) * count(runtime) + rank) * batch;
  read_samples(corpus, sampler, sampler.after(place.sampler, first), tokens);
}

// Each rank's sum over its micro-batches, by an operation: a read of the host would not be ordered
// after the bodies that compute the losses.
Result<PerRank<float>> Trainer::State::summed_losses() {
  Compute sum;
  sum.writes = {View::whole(loss, DType::float32, Numel{1})};
  sum.on_numbers = true;  // it starts after a GPU has sent its losses to the host
  sum.body = [this](const BodyContext& context) {
    float total = 0;
    for (float of_micro_batch : language.losses(context.rank())) total += of_micro_batch;
    store_number(context.write(0), DType::float32, 0, total);
  };
  Op op{.stream = engine->compute_stream(),
        .where = runtime.world(),
        .after = {},
        .cause = {},
        .what = {}};
  op.what = sum;
  TESSERA_ASSIGN(loss_written, runtime.submit(op));
  return runtime.read(sum.writes[0]);
}

// Each rank adds its micro-batches, then all ranks add in rank order: one rank with four
// micro-batches rounds as four ranks with one.
Result<float> Trainer::State::mean_loss() {
  TESSERA_ASSIGN(const PerRank<float> sums, summed_losses());
  float total = 0;
  for (Rank rank = 0; rank < count(runtime); ++rank) total += sums[rank];
  return total / static_cast<float>(count(runtime) * options.step.accumulation);
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
    TESSERA_ASSIGN(const PerRank<float> losses, s.summed_losses());
    TESSERA_TRY(s.unread_tokens());
    for (Rank rank = 0; rank < count(s.runtime); ++rank) {
      if (first + rank < s.validation->batches) total += losses[rank];
    }
  }
  return total / static_cast<float>(s.validation->batches);
}

Result<TrainedStep> Trainer::step() {
  State& s = *state_;
  TrainedStep done{.step = s.place.step + 1, .tokens = tokens_per_step()};
  done.learning_rate = s.options.learning_rate.at(s.place.step);
  s.step.adam.learning_rate = done.learning_rate;
  if (s.scaler) done.loss_scale = s.scaler->scale();
  s.scale_loss();
  TESSERA_ASSERT(!s.validating, "no validation is under way");
  s.skips = false;
  TESSERA_TRY(s.steps.run(s.step));
  TESSERA_ASSIGN(done.loss, s.mean_loss());
  TESSERA_TRY(s.unread_tokens());
  s.note_skip(done);
  done.grad_norm = s.grad_norm;
  // A skipped step has used its samples: the sampler moves on, so that a resumed run sees the same.
  s.place.sampler = s.sampler.after(s.place.sampler, s.samples_per_step());
  ++s.place.step;
  TESSERA_TRY(s.check(done));
  return done;
}

std::int64_t Trainer::steps_done() const { return state_->place.step; }

std::int64_t Trainer::tokens_per_step() const {
  return state_->samples_per_step() * state_->options.step.sequence_length;
}

std::int64_t Trainer::samples_per_epoch() const { return state_->sampler.samples(); }

std::string_view Trainer::scheme() const { return name_of(state_->options.scheme); }

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
  if (!anyway) TESSERA_TRY(check_same_order(place, state_->place, state_->corpus.source()));
  TESSERA_TRY(state_->sampler.check(place.sampler));
  state_->place.step = place.step;
  state_->place.sampler = place.sampler;
  state_->place.loss_scale = place.loss_scale;
  state_->place.skipped_steps = place.skipped_steps;
  if (state_->scaler && place.loss_scale) state_->scaler->load(*place.loss_scale);
  return {};
}

Status Trainer::finish() {
  TESSERA_TRY(state_->runtime.release(state_->loss, state_->loss_written, state_->runtime.world()));
  return state_->language.release();
}

}  // namespace tessera
