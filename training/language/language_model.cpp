// SPDX-License-Identifier: Apache-2.0
#include "tessera/language_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "engine/numbers/arithmetic.h"
#include "training/kernels/dropout.h"
#include "training/kernels/threads.h"
#include "training/language/initial_values.h"
#include "training/language/workspace.h"

namespace tessera {

using language::Call;
using language::PlannedLayer;
using Pass = ModuleWork::Pass;

struct LanguageModel::State {
  LanguageModelOptions options;
  std::unique_ptr<language::Plan> plan;
  Runtime* runtime = nullptr;
  Rank world = 1;
  BufferId workspace;
  Bytes workspace_bytes{};
  std::function<void(Rank, std::int32_t, const TokenBatch&)> fill;
  float loss_scale = 1;
  std::optional<std::uint64_t> dropout_key = {};
  using Losses = std::map<Rank, std::vector<float>>;
  std::shared_ptr<Losses> losses = std::make_shared<Losses>();
  std::set<Rank> has_rotary;  // in its workspace

  bool apart() const { return options.checkpointing == ActivationCheckpointing::full; }
  // Forward of a module that will run again, or has no backward: what it saves is only temporary.
  bool forgets(const PlannedLayer& planned, Pass pass) const {
    return pass == Pass::evaluate || !planned.runs_backward ||
           (apart() && planned.in_block && pass == Pass::forward);
  }
  Bytes stream_bytes() const {
    return Bytes{plan->shape.tokens() * plan->shape.width * std::int64_t{sizeof(float)}};
  }

  ModuleMemory memory(ModuleId module, Pass pass) const;
  void run(ModuleId module, Pass pass, std::int32_t micro_batch, const BodyContext& context);
  void move_stream(Pass pass, const BodyContext& context) const;
  void begin(std::int32_t micro_batch, const BodyContext& context, const language::Workspace& work);
  void end(std::int32_t micro_batch, const BodyContext& context, const float* loss);
  kernels::Math* math(const BodyContext& context) const;
  /// What touches the host does not: tokens that come, losses that go and their scale.
  bool repeats(ModuleId module, Pass pass) const {
    return module != plan->last && (module != plan->first || pass == Pass::backward);
  }
};

namespace {

// Into memory of the context's, which need not be the host's.
template <class T>
void send(const BodyContext& context, const std::vector<T>& from, T* to) {
  context.kernels().send(std::as_bytes(std::span(from)),
                         std::as_writable_bytes(std::span(to, from.size())));
}

}  // namespace

ModuleMemory LanguageModel::State::memory(ModuleId module, Pass pass) const {
  ModuleMemory out;
  out.workspace = {View::whole(workspace, DType::uint8, Numel{workspace_bytes.value})};
  const auto found = plan->layers.find(module);
  if (found == plan->layers.end()) {  // a block, whose input is the stream
    out.saves = stream_bytes();
    return out;
  }
  const PlannedLayer& planned = found->second;
  out.saves = planned.layer->saves();
  out.temporary = planned.layer->temporary(pass == Pass::backward);
  if (!forgets(planned, pass)) return out;
  out.temporary += out.saves;
  out.saves = Bytes{0};
  return out;
}

void LanguageModel::State::begin(std::int32_t micro_batch, const BodyContext& context,
                                 const language::Workspace& work) {
  const Rank rank = context.rank();
  std::vector<float>& own = (*losses)[rank];
  if (micro_batch == 0) own.clear();
  own.push_back(0);
  const language::Shape& s = plan->shape;
  TESSERA_ASSERT(fill != nullptr, "LanguageModel::set_data comes before training");
  language::TokenArrays arrays(s);
  fill(rank, micro_batch, arrays.batch());
  arrays.finish(*plan);
  send(context, arrays.tokens, work.tokens);
  if (s.documents) send(context, arrays.begins, work.begins);
  if (has_rotary.insert(rank).second) send(context, language::rotary_of(*plan), work.rotary);
}

// The loss arrives when the stream has come to it.
void LanguageModel::State::end(std::int32_t micro_batch, const BodyContext& context,
                               const float* loss) {
  const Rank rank = context.rank();
  const auto arrived = [all = losses, rank, micro_batch](std::span<const std::byte> from) {
    std::vector<float>& own = (*all)[rank];
    const auto place = static_cast<std::size_t>(micro_batch);
    if (place < own.size()) std::memcpy(&own[place], from.data(), sizeof(float));
  };
  context.kernels().receive(std::as_bytes(std::span(loss, 1)), arrived);
}

kernels::Math* LanguageModel::State::math(const BodyContext& context) const {
  kernels::Math* const on_device = context.kernels().math();
  TESSERA_ASSERT(on_device == nullptr || plan->shape.processor != Processor::cpu,
                 "LanguageModelOptions::processor is the runtime's");
  if (on_device != nullptr) return on_device;
  kernels::limit_threads(plan->shape.threads);
  return &plan->host;
}

// The input of a checkpointed block, out of the stream and back.
void LanguageModel::State::move_stream(Pass pass, const BodyContext& context) const {
  const bool keep = pass == Pass::forward;
  const auto layout = language::workspace_at(context.write(keep ? 1 : 0).data(), *plan, apart());
  const kernels::Array stream{layout.work.x, DType::float32};
  const std::int64_t numel = plan->shape.tokens() * plan->shape.width;
  if (keep) {
    math(context)->convert(stream, {context.write(0).data(), DType::float32}, numel);
  } else {
    math(context)->convert({context.read(0).data(), DType::float32}, stream, numel);
  }
}

void LanguageModel::State::run(ModuleId module, Pass pass, std::int32_t micro_batch,
                               const BodyContext& context) {
  const auto found = plan->layers.find(module);
  if (found == plan->layers.end()) return move_stream(pass, context);
  const PlannedLayer& planned = found->second;
  const bool backward = pass == Pass::backward;
  Call call;
  for (std::size_t k = 0; k < planned.reads; ++k) call.parameters.push_back(context.read(k));
  std::size_t next = 0;
  for (; backward && next < planned.writes; ++next) call.gradients.push_back(context.write(next));
  const Bytes own = planned.layer->temporary(backward);
  const Bytes saves = planned.layer->saves();
  const bool forgets_saved = forgets(planned, pass);
  if (own > Bytes{0} || (forgets_saved && saves > Bytes{0})) {
    call.temporary = context.write(next++).data();
  }
  if (saves > Bytes{0}) {
    if (forgets_saved) {
      call.saved = call.temporary + own.value;
    } else if (backward) {
      call.saved = const_cast<std::byte*>(context.read(planned.reads).data());
    } else {
      call.saved = context.write(next++).data();
    }
  }
  call.math = math(context);
  call.work = language::workspace_at(context.write(next).data(), *plan, apart()).work;
  call.progress = &options.progress;
  call.half = plan->shape.half();
  call.gradient_scale = loss_scale / static_cast<float>(plan->shape.tokens());
  call.drops = plan->shape.drops && pass != Pass::evaluate;
  TESSERA_ASSERT(dropout_key || !call.drops, "LanguageModel::set_dropout comes before training");
  call.dropout_key = dropout_key.value_or(0);
  call.first_sample = (std::int64_t{micro_batch} * world + context.rank()) * plan->shape.batch;
  if (module == plan->first && (pass == Pass::forward || pass == Pass::evaluate)) {
    begin(micro_batch, context, call.work);
  }
  call.give_loss = [&](const float* loss) { end(micro_batch, context, loss); };
  backward ? planned.layer->backward(call) : planned.layer->forward(call);
}

Result<LanguageModel> LanguageModel::create(const Model& model,
                                            const LanguageModelOptions& options) {
  if (options.batch < 1 || options.sequence_length < 1 || options.threads < 0) {
    return Status(Code::invalid_argument,
                  fmt::format("batch {} and sequence_length {} must be at least 1, threads {} not "
                              "negative",
                              options.batch, options.sequence_length, options.threads));
  }
  for (const DType dtype : {options.dtype, options.parameters}) {
    if (kernels::is_computed(dtype)) continue;
    return Status(Code::not_supported, fmt::format("real training computes with float32, bfloat16 "
                                                   "and float16, not with {}",
                                                   name_of(dtype)));
  }
  if (size_of(options.dtype) == size_of(options.parameters) &&
      options.dtype != options.parameters) {
    return Status(Code::invalid_argument,
                  fmt::format("modules compute in {}, but parameters are {}: choose one of them",
                              name_of(options.dtype), name_of(options.parameters)));
  }
  if (options.recompute.any() && options.checkpointing != ActivationCheckpointing::none) {
    return Status(Code::invalid_argument,
                  fmt::format("recompute {}: blocks that are checkpointed keep nothing of it",
                              to_text(options.recompute)));
  }
  if (options.documents && options.processor != Processor::cpu) {
    return Status(Code::not_supported,
                  "documents within a sequence, and tokens that are not learned, are computed on "
                  "CPUs only: train on tokens without borders, or on CPUs");
  }
  const bool drops = options.dropout && model.mathematics.drops();
  if (drops && options.processor != Processor::cpu) {
    return Status(Code::not_supported,
                  fmt::format("{} has dropout, which is computed on CPUs only: switch it off, or "
                              "train on CPUs",
                              model.name));
  }
  language::Shape shape{.batch = options.batch,
                        .length = options.sequence_length,
                        .documents = options.documents,
                        .recompute = options.recompute,
                        .adapter_scale = options.adapter_scale,
                        .drops = drops,
                        .dtype = options.dtype,
                        .parameters = options.parameters,
                        .fp8 = options.fp8,
                        .threads = options.threads,
                        .processor = options.processor};
  if (shape.threads == 0) shape.threads = kernels::available_threads();
  kernels::limit_threads(shape.threads);
  auto state = std::make_shared<State>();
  state->options = options;
  TESSERA_ASSIGN(state->plan, language::Plan::make(model, shape));
  state->workspace_bytes = language::workspace_at(nullptr, *state->plan, state->apart()).bytes;
  return LanguageModel(std::move(state));
}

Status LanguageModel::take_workspace(Runtime& runtime) const {
  TESSERA_ASSERT(state_->runtime == nullptr, "a model has one workspace");
  TESSERA_ASSIGN(state_->workspace, runtime.allocate({.bytes = state_->workspace_bytes,
                                                      .memory_class = MemoryClass::activations,
                                                      .stream = StreamId{0},
                                                      .where = runtime.world(),
                                                      .name = "workspace"}));
  state_->runtime = &runtime;
  state_->world = runtime.world().count();
  return {};
}

Status LanguageModel::release() const {
  State& s = *state_;
  TESSERA_ASSIGN(const EventId last, s.runtime->submit({.stream = StreamId{0},
                                                        .where = s.runtime->world(),
                                                        .what = declare_read({})}));
  return s.runtime->release(s.workspace, last, s.runtime->world());
}

void LanguageModel::apply(TrainingOptions& options) const {
  options.batch = state_->options.batch;
  options.sequence_length = state_->options.sequence_length;
  options.checkpointing = state_->options.checkpointing;
  options.recompute = state_->options.recompute;
  options.on_device = true;
  options.memory = [state = state_](ModuleId module, Pass pass) {
    return state->memory(module, pass);
  };
  options.repeated = [state = state_](ModuleId module, Pass pass) {
    if (!state->repeats(module, pass)) return Repeated{};
    return Repeated{state, module.value * 4 + static_cast<std::int32_t>(pass)};
  };
  options.body = [state = state_](ModuleId module, Pass pass, std::int32_t micro_batch) {
    return [state, module, pass, micro_batch](const BodyContext& context) {
      state->run(module, pass, micro_batch, context);
    };
  };
}

void LanguageModel::set_data(
    std::function<void(Rank, std::int32_t, std::span<std::int32_t>)> fill) const {
  const auto length = static_cast<std::size_t>(state_->options.sequence_length);
  set_batches([length, fill = std::move(fill)](Rank rank, std::int32_t micro_batch,
                                               const TokenBatch& batch) {
    const std::size_t sequences = batch.inputs.size() / length;
    std::vector<std::int32_t> tokens(sequences * (length + 1));
    fill(rank, micro_batch, tokens);
    for (std::size_t b = 0; b < sequences; ++b) {
      const auto window = std::span<const std::int32_t>(tokens).subspan(b * (length + 1));
      const TokenBatch to = batch.part(b * length, length);
      std::copy_n(window.begin(), length, to.inputs.begin());
      std::copy_n(window.begin() + 1, length, to.targets.begin());
    }
  });
}

void LanguageModel::set_batches(
    std::function<void(Rank, std::int32_t, const TokenBatch&)> fill) const {
  state_->fill = std::move(fill);
}

void LanguageModel::set_dropout(std::uint64_t seed, std::int64_t step) const {
  state_->dropout_key = kernels::dropout_key(seed, step);
}

void LanguageModel::set_loss_scale(float scale) const { state_->loss_scale = scale; }

std::function<float(ParameterId, Numel)> LanguageModel::initial_values(std::uint64_t seed) const {
  return language::initial_values(*state_->plan, seed);
}

std::span<const float> LanguageModel::losses(Rank rank) const {
  const auto found = state_->losses->find(rank);
  if (found == state_->losses->end()) return {};
  return found->second;
}

}  // namespace tessera
